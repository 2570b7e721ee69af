// SPDX-License-Identifier: Apache-2.0
#include "cli/argument_checks.hpp"

#include <system_error>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cairn::cli {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

template <class Number>
std::optional<Number> parsed(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// Returns what a unit multiplies by; nothing for what is not one.
std::optional<std::uint64_t> unit_bytes(std::string unit) {
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::string_view kPowers = "kmgtpe";
  if (unit.empty() || unit == "b") {
    return 1;
  }
  const std::size_t power = kPowers.find(unit.front());
  const std::string_view rest = std::string_view(unit).substr(1);
  if (power == std::string_view::npos || !(rest.empty() || rest == "b" || rest == "i" || rest == "ib")) {
    return std::nullopt;
  }
  return std::uint64_t{1} << (10 * (power + 1));
}

std::optional<std::uint64_t> bytes_of(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view rest = text.substr(digits);
  const std::size_t blanks = std::min(rest.find_first_not_of(' '), rest.size());
  const std::optional<std::uint64_t> count = parsed<std::uint64_t>(text.substr(0, digits));
  const std::optional<std::uint64_t> unit = unit_bytes(std::string(rest.substr(blanks)));
  std::uint64_t bytes = 0;
  if (!count || !unit || __builtin_mul_overflow(*count, *unit, &bytes) || bytes == 0) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  const std::string range = most != kMost ? fmt::format("from {} to {}", least, most)
                            : least != 0  ? fmt::format("of at least {}", least)
                                          : "";
  const std::string shown = most != kMost ? fmt::format("[{} - {}]", least, most)
                            : least != 0  ? fmt::format("[>= {}]", least)
                                          : "";
  return {[=](std::string& text) -> std::string {
            const std::optional<std::uint64_t> value = parsed<std::uint64_t>(text);
            if (!value || *value < least || *value > most) {
              return fmt::format("'{}' is not a whole number{}{}", text, range.empty() ? "" : " ", range);
            }
            text = fmt::to_string(*value);
            return {};
          },
          shown};
}

CLI::Validator number(double least) {
  return {[=](std::string& text) -> std::string {
            const std::optional<double> value = parsed<double>(text);
            if (!value || !std::isfinite(*value) || *value < least) {
              return fmt::format("'{}' is not a number of at least {}", text, least);
            }
            return {};
          },
          fmt::format("[>= {}]", least)};
}

CLI::Validator size_in_bytes() {
  return {[](std::string& text) -> std::string {
            const std::optional<std::uint64_t> bytes = bytes_of(text);
            if (!bytes) {
              return fmt::format("'{}' is not a size such as 500MiB", text);
            }
            text = fmt::to_string(*bytes);
            return {};
          },
          ""};
}

CLI::Validator rename_words() {
  return {[](std::string& text) -> std::string {
            return std::count(text.begin(), text.end(), '=') == 1
                       ? ""
                       : fmt::format("'{}' is not a pattern, a '=' and what becomes of its paths", text);
          },
          ""};
}

CLI::Validator one_of(std::vector<std::string> words) {
  return {[words = std::move(words)](std::string& text) -> std::string {
            if (std::find(words.begin(), words.end(), text) == words.end()) {
              return fmt::format("'{}' is not {}", text, fmt::join(words, " or "));
            }
            return {};
          },
          ""};
}

}  // namespace cairn::cli
