// SPDX-License-Identifier: Apache-2.0
#include "tools/internal/text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"
#include "cairn/contract/handler.hpp"
#include "cairn/core/load.hpp"

#include "base/internal/json_string.hpp"
#include "formats/internal/foreign_index.hpp"
#include "formats/internal/index.hpp"

namespace cairn::tools {
namespace {

// The enumerators, in their order.
constexpr std::array<std::string_view, 24> kDTypes = {
    "?",           "boolean",     "uint8",           "uint16",          "uint32",
    "uint64",      "int8",        "int16",           "int32",           "int64",
    "float16",     "bfloat16",    "float32",         "float64",         "complex64",
    "float8_e4m3", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0",
    "float6_e2m3", "float6_e3m2", "float4",          "complex128"};
static_assert(kDTypes.size() == static_cast<std::size_t>(kLastDType) + 1);

constexpr std::size_t kMostTextBytes = 60;  // Of a string that is shown to people.

}  // namespace

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) {
    return fmt::format("{} B", bytes);
  }
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // From 1023.95 on, one decimal would be rounded up to "1024.0".
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string count_text(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3; at -= 3) {
    digits.insert(at - 3, 1, ',');
  }
  return digits;
}

std::string count_text(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count_text(count), noun, count == 1 ? "" : "s");
}

std::string shown_path(std::string_view path, bool is_foreign) {
  const std::vector<std::string> keys = is_foreign ? formats::split_path(path) : std::vector<std::string>();
  return keys.empty() ? std::string(path) : fmt::format("{}", fmt::join(keys, "/"));
}

std::string value_text(const DescribedValue& value) {
  const auto text = [](const auto& held) -> std::string {
    using Held = std::decay_t<decltype(held)>;
    if constexpr (std::is_same_v<Held, std::monostate>) {
      return "";
    } else if constexpr (std::is_same_v<Held, std::string>) {
      return held.size() <= kMostTextBytes ? json_string(held) : count_text(held.size(), "byte");
    } else if constexpr (std::is_same_v<Held, std::vector<std::byte>>) {
      return count_text(held.size(), "byte");
    } else {
      return fmt::to_string(held);
    }
  };
  return std::visit(text, value.value);
}

std::string_view dtype_text(DType dtype) {
  return kDTypes[is_valid(dtype) ? static_cast<std::size_t>(dtype) : 0];
}

std::optional<DType> dtype_of(std::string_view text) {
  const auto found = std::find(kDTypes.begin() + 1, kDTypes.end(), text);
  return found == kDTypes.end() ? std::nullopt : std::optional(static_cast<DType>(found - kDTypes.begin()));
}

std::string problem_text(const ItemMetadata& item) {
  return item.problem_code == Errc::unknown_handler_id ? "" : item.problem;
}

std::vector<std::string> notes_of(const Description& description) {
  std::vector<formats::LeftOut> left_out;
  for (const DescribedValue& one : description.left_out) {
    left_out.push_back({one.name, one.kind});
  }
  std::vector<std::string> notes = formats::left_out_texts(left_out);
  notes.insert(notes.end(), description.problems.begin(), description.problems.end());
  return notes;
}

}  // namespace cairn::tools
