// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/internal/utf8.hpp"

namespace cairn::formats {

/// Returns whether `name` can only mean a file in the folder that it is looked up in: one component, neither
/// "." nor "..".
[[nodiscard]] inline bool is_plain_file_name(std::string_view name) noexcept {
  constexpr std::size_t kMaxBytes = 255;  // NAME_MAX of Linux.
  constexpr std::string_view kForbidden("/\\\0", 3);
  return !name.empty() && name.size() <= kMaxBytes && name != "." && name != ".." &&
         name.find_first_of(kForbidden) == std::string_view::npos && is_valid_utf8(name);
}

}  // namespace cairn::formats
