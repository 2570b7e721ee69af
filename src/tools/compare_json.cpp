// SPDX-License-Identifier: Apache-2.0
#include "tools/compare_json.hpp"

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "cairn/handlers/json.hpp"

#include "tools/internal/text.hpp"

namespace cairn::tools {
namespace {

using Json = nlohmann::json;
using Aspect = Difference::Aspect;

constexpr std::size_t kMostShownBytes = 60;

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= kMostShownBytes ? text : count_text(text.size(), "byte") + " of JSON";
}

/// Returns what a pointer names, "/a/b", below the title of the document.
std::string title_of(const std::string& title, const Json::json_pointer& pointer) {
  return title + pointer.to_string();
}

/// Returns whether two values load as the same: to `==` of the JSON library 1 is 1.0, and zero is minus zero.
/// Arrays count as different here: those of one length have been walked through.
bool is_same_scalar(const Json& a, const Json& b) {
  if (a.type() != b.type() || a.is_structured()) {
    return false;
  }
  return a.is_number_float()
             ? std::bit_cast<std::uint64_t>(a.get<double>()) == std::bit_cast<std::uint64_t>(b.get<double>())
             : a == b;
}

/// Walks both documents side by side; they are no deeper than what was loaded may be.
void walk(const std::string& title, Aspect aspect, const Json& a, const Json& b, const Json::json_pointer& at,
          std::vector<Difference>& differences) {
  if (a.is_object() && b.is_object()) {
    for (const auto& [key, value] : a.items()) {
      if (b.contains(key)) {
        walk(title, aspect, value, b.at(key), at / key, differences);
      } else {
        differences.push_back({Aspect::only_in_a, title_of(title, at / key), shown(value), "", {}});
      }
    }
    for (const auto& [key, value] : b.items()) {
      if (!a.contains(key)) {
        differences.push_back({Aspect::only_in_b, title_of(title, at / key), "", shown(value), {}});
      }
    }
    return;
  }
  if (a.is_array() && b.is_array() && a.size() == b.size()) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      walk(title, aspect, a[i], b[i], at / i, differences);
    }
    return;
  }
  if (!is_same_scalar(a, b)) {
    differences.push_back({aspect, title_of(title, at), shown(a), shown(b), {}});
  }
}

}  // namespace

void compare_json(const std::string& title, Aspect aspect, std::string_view a, std::string_view b,
                  std::vector<Difference>& differences) {
  walk(title, aspect, parse_json(a, title), parse_json(b, title), Json::json_pointer(), differences);
}

}  // namespace cairn::tools
