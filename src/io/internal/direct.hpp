// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include <cstddef>
#include <string>

#include "io/internal/file.hpp"

namespace cairn::io {

/// Whole pages, so that direct and buffered transfers never meet on one page of the cache.
inline constexpr std::size_t kDirectBytes = 4096;

/// Why transfers of an open file cannot pass the page cache in blocks of `kDirectBytes`, as far as the kernel says so
/// beforehand; empty when it does not.
[[nodiscard]] std::string why_not_direct(const FileHandle& file);

/// Returns whether a failed transfer means that this file takes no direct ones: some file systems say so only
/// then.
[[nodiscard]] bool is_direct_refusal(std::error_code failure) noexcept;

/// Returns what the failure of an open with O_DIRECT means for a file that could be opened without.
[[nodiscard]] std::string why_not_direct(std::error_code failure);

}  // namespace cairn::io
