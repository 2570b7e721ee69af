// SPDX-License-Identifier: Apache-2.0
#include "type_name.hpp"

#include <cstddef>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::detail {

std::string parse_type_name(std::string text, std::string_view path) {
  constexpr std::size_t kLongestName = 4096;
  const std::size_t end = text.find('\n');
  if (end == 0 || end == std::string::npos || end + 1 != text.size() || text.size() > kLongestName) {
    throw Error(Errc::malformed_metadata, fmt::format("{}: not the name of one message type", path));
  }
  text.pop_back();
  return text;
}

}  // namespace cairn::detail
