// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace cairn {

/// Copies bytes that nobody will read soon: large copies leave the processor's caches alone, which makes them
/// cheaper (no line is fetched only to be overwritten) and keeps what others have cached.
///
/// `to` and `from` must not overlap.
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

}  // namespace cairn
