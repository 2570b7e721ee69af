// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cairn::io {

/// Returns whether a file's contents seem to be in the page cache already: a few samples of it are.
///
/// A hint, which decides how a file is read, never what is read. Reads at most a few bytes; blocks shortly.
[[nodiscard]] bool seems_cached(int fd, std::uint64_t size_bytes) noexcept;

}  // namespace cairn::io
