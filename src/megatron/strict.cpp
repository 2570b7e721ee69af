// SPDX-License-Identifier: Apache-2.0
#include "cairn/megatron/strict.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "megatron/strict_rules.hpp"

namespace cairn::megatron {
namespace {

using detail::OnMismatch;

struct StrictRow {
  std::string_view name;
  detail::StrictRules rules;
};

constexpr StrictRow kStrict[] = {
    {"assume_ok_unexpected", {OnMismatch::raise, OnMismatch::ignore, false}},
    {"log_unexpected", {OnMismatch::report, OnMismatch::ignore}},
    {"log_all", {OnMismatch::report, OnMismatch::report}},
    {"raise_unexpected", {OnMismatch::raise, OnMismatch::ignore}},
    {"raise_all", {OnMismatch::raise, OnMismatch::raise}},
    {"return_unexpected", {OnMismatch::give_back, OnMismatch::ignore}},
    {"return_all", {OnMismatch::give_back, OnMismatch::give_back}},
    {"ignore_all", {OnMismatch::ignore, OnMismatch::ignore}},
};

constexpr std::size_t kMostKeysNamed = 20;

std::string more(std::size_t count) {
  return count > kMostKeysNamed ? fmt::format(" and {} more", count - kMostKeysNamed) : "";
}

std::string unexpected_text(const std::map<std::string, SomeRanks>& keys, std::string_view checkpoint) {
  std::string names;
  std::size_t named = 0;
  for (const auto& [key, ranks] : keys) {
    if (named++ == kMostKeysNamed) {
      break;
    }
    names += fmt::format("{}'{}'{}", names.empty() ? "" : ", ", key,
                         ranks.count == 0 ? "" : fmt::format(" ({})", to_string(ranks)));
  }
  return fmt::format("Unexpected keys (not in {}): {}{}", checkpoint, names, more(keys.size()));
}

std::string missing_text(const std::set<std::string>& keys) {
  std::string names;
  std::size_t named = 0;
  for (const std::string& key : keys) {
    if (named++ == kMostKeysNamed) {
      break;
    }
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", key);
  }
  return fmt::format("Missing keys (stored, asked for by no rank): {}{}", names, more(keys.size()));
}

}  // namespace

std::string_view name(Strict strict) noexcept {
  const auto number = static_cast<std::size_t>(strict);
  return number < std::size(kStrict) ? kStrict[number].name : std::string_view();
}

Strict parse_strict(std::string_view name) {
  std::string names;
  for (std::size_t number = 0; number < std::size(kStrict); ++number) {
    if (kStrict[number].name == name) {
      return static_cast<Strict>(number);
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", kStrict[number].name);
  }
  throw Error(Errc::invalid_argument,
              fmt::format("'{}' is not a way to be strict; there are: {}", name, names));
}

detail::StrictRules detail::rules_of(Strict strict) noexcept {
  const auto number = static_cast<std::size_t>(strict);
  return kStrict[std::min(number, std::size(kStrict) - 1)].rules;
}

detail::StrictVerdict detail::judge(Strict strict, const FoundMismatch& found,
                                    const std::set<std::string>& own_unexpected,
                                    std::string_view checkpoint) {
  const StrictRules rules = rules_of(strict);
  StrictVerdict verdict;
  const auto say = [&verdict](OnMismatch what, const std::string& text) {
    if (what == OnMismatch::raise || what == OnMismatch::report) {
      std::string& into = what == OnMismatch::raise ? verdict.error : verdict.problem;
      into += (into.empty() ? "" : ". ") + text;
    }
  };
  if (!found.unexpected.empty()) {
    say(rules.unexpected, unexpected_text(found.unexpected, checkpoint));
  }
  if (!found.missing.empty()) {
    say(rules.missing, missing_text(found.missing));
  }
  if (rules.unexpected == OnMismatch::give_back) {
    verdict.given_back.unexpected = own_unexpected;
  }
  if (rules.missing == OnMismatch::give_back) {
    verdict.given_back.missing = found.missing;
  }
  return verdict;
}

}  // namespace cairn::megatron
