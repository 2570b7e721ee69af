// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include <cstddef>
#include <string>
#include <string_view>

#include "io/internal/file.hpp"

namespace cairn::io {

/// Whole pages, so that direct and buffered transfers never meet on one page of the cache.
inline constexpr std::size_t kDirectBytes = 4096;

/// Why transfers of an open file cannot pass the page cache in blocks of `kDirectBytes`, as far as the kernel says so
/// beforehand; empty when it does not.
[[nodiscard]] std::string why_not_direct(const FileHandle& file);

/// Opens a file a second time with O_DIRECT, or says why not. What keeps it from that does no harm: transfers go
/// through the cache.
[[nodiscard]] FileHandle open_direct(const Directory& directory, std::string_view relative,
                                     const FileHandle& buffered, std::string& refusal);

/// Returns whether a failed transfer means that this file takes no direct ones: some file systems say so only
/// then.
[[nodiscard]] bool is_direct_refusal(std::error_code failure) noexcept;

/// Returns what the failure of an open with O_DIRECT means for a file that could be opened without.
[[nodiscard]] std::string why_not_direct(std::error_code failure);

}  // namespace cairn::io
