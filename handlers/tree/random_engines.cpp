// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/random_engines.hpp"

#include <system_error>

#include <charconv>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "containers.hpp"

namespace cairn::detail {

std::vector<std::uint64_t> numbers_of(std::string_view text) {
  std::vector<std::uint64_t> numbers;
  while (!text.empty()) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), numbers.emplace_back());
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    const bool has_more = text.size() > 1 && text.front() == ' ';
    if (error != std::errc() || (!text.empty() && !has_more)) {
      return {};
    }
    text.remove_prefix(has_more ? 1 : 0);
  }
  return numbers;
}

void throw_other_engine(std::string_view path) {
  throw Error(Errc::type_mismatch,
              fmt::format("{} is not the state of a random engine of the type that is wanted", shown(path)));
}

}  // namespace cairn::detail
