// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cairn::proto {

/// Returns how many threads work on so many bytes, where `wanted` is 0; else that.
[[nodiscard]] unsigned threads_for(std::uint64_t bytes, unsigned wanted);

}  // namespace cairn::proto
