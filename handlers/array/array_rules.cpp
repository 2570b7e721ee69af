// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/array_rules.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"

#include "formats/internal/index.hpp"

namespace cairn {
namespace {

constexpr std::string_view kAnyKeys = "**";

/// The keys of a path or a pattern, as they are written; none of an empty one.
std::vector<std::string_view> keys_of(std::string_view path) {
  std::vector<std::string_view> keys;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    keys.push_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return keys;
}

/// Returns whether a key is one that the pattern of a key stands for.
bool matches_key(std::string_view pattern, std::string_view key) {
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t p = 0;
  std::size_t k = 0;
  std::size_t star =
      kNone;  // The last '*' that was met, and the characters that it has taken end before `taken`.
  std::size_t taken = 0;
  while (k < key.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = k;
    } else if (p < pattern.size() && pattern[p] == key[k]) {
      ++p;
      ++k;
    } else if (star != kNone) {
      p = star + 1;
      k = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == kNone;
}

/// In time that is the product of both lengths, whatever the pattern is.
bool matches(std::string_view pattern, const std::vector<std::string_view>& keys) {
  std::vector<bool> reached(keys.size() +
                            1);  // Whether the pattern so far stands for the first so many keys.
  reached[0] = true;
  for (const std::string_view part : keys_of(pattern)) {
    std::vector<bool> next(reached.size());
    for (std::size_t i = 0; i < reached.size(); ++i) {
      if (part == kAnyKeys) {
        next[i] = reached[i] || (i > 0 && next[i - 1]);
      } else {
        next[i] = i > 0 && reached[i - 1] && matches_key(part, keys[i - 1]);
      }
    }
    reached = std::move(next);
  }
  return reached.back();
}

/// In how many letters two texts agree from the front, and then from the back, whatever their case is.
std::size_t likeness(std::string_view a, std::string_view b) {
  const auto is_same = [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); };
  const auto [front, unused] = std::mismatch(a.begin(), a.end(), b.begin(), b.end(), is_same);
  const auto same = static_cast<std::size_t>(front - a.begin());
  a.remove_prefix(same);
  b.remove_prefix(same);
  const auto [back, also_unused] = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend(), is_same);
  return same + static_cast<std::size_t>(back - a.rbegin());
}

void check_pattern(std::string_view pattern) {
  const auto refuse = [pattern](std::string_view why) {
    throw Error(Errc::invalid_argument,
                fmt::format("the pattern '{}' of a rule for arrays {}", pattern, why));
  };
  if (pattern.starts_with('/') || pattern.ends_with('/') || pattern.find("//") != std::string_view::npos) {
    refuse("has an empty key");
  }
  for (const std::string_view key : keys_of(pattern)) {
    if (key != kAnyKeys && key.find(kAnyKeys) != std::string_view::npos) {
      refuse("has '**' in a key, where it must be all of it");
    }
  }
}

void check_form(const ArrayRules::Rule& rule) {
  const ArrayForm& form = rule.form;
  if (form.storage_dtype && !is_valid(*form.storage_dtype)) {
    throw Error(Errc::invalid_argument, fmt::format("{} stores as {}, which is not a dtype", rule.describe(),
                                                    static_cast<unsigned>(*form.storage_dtype)));
  }
  if (form.snapshot && *form.snapshot > Snapshot::share) {
    throw Error(Errc::invalid_argument, fmt::format("{} has snapshot {}, which is not a Snapshot",
                                                    rule.describe(), static_cast<unsigned>(*form.snapshot)));
  }
  if (form.storage_dtype && form.keeps_dtype) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} sets both a dtype and as_in_memory", rule.describe()));
  }
  if (form.policy != nullptr && form.has_no_policy) {
    throw Error(Errc::invalid_argument, fmt::format("{} sets both a policy and undivided", rule.describe()));
  }
  const bool says_policy = form.policy != nullptr || form.has_no_policy;
  if (!form.storage_dtype && !form.keeps_dtype && !form.snapshot && !says_policy && !form.is_replicated) {
    throw Error(Errc::invalid_argument, fmt::format("{} sets nothing", rule.describe()));
  }
}

}  // namespace

std::string ArrayRules::Rule::describe() const {
  return checkpointable ? fmt::format("the rule '{}' for '{}'", pattern, *checkpointable)
                        : fmt::format("the rule '{}'", pattern);
}

ArrayRules& ArrayRules::add(std::string pattern, ArrayForm form) {
  return append({std::nullopt, std::move(pattern), std::move(form)});
}

ArrayRules& ArrayRules::add_for(std::string checkpointable, std::string pattern, ArrayForm form) {
  return append({std::move(checkpointable), std::move(pattern), std::move(form)});
}

ArrayRules& ArrayRules::append(Rule rule) {
  check_pattern(rule.pattern);
  check_form(rule);
  rules_.push_back(std::move(rule));
  return *this;
}

ArrayRules::Use::Use(const ArrayRules& rules)
    : rules_(rules.rules().begin(), rules.rules().end()), outcomes_(rules_.size()) {}

ArrayForm ArrayRules::Use::form_of(std::string_view checkpointable, std::string_view path) {
  const std::vector<std::string_view> keys = keys_of(path);
  ArrayForm form;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const Rule& rule = rules_[i];
    if ((rule.checkpointable && *rule.checkpointable != checkpointable) || !matches(rule.pattern, keys)) {
      note_nearest(rule, checkpointable, path, outcomes_[i]);
      continue;
    }
    outcomes_[i].has_matched = true;
    if (rule.form.storage_dtype || rule.form.keeps_dtype) {
      form.storage_dtype = rule.form.storage_dtype;
      form.narrowing = rule.form.narrowing;
      form.keeps_dtype = rule.form.keeps_dtype;
    }
    if (rule.form.snapshot) {
      form.snapshot = rule.form.snapshot;
    }
    if (rule.form.policy != nullptr || rule.form.has_no_policy) {
      form.policy = rule.form.policy;
      form.has_no_policy = rule.form.has_no_policy;
    }
    if (rule.form.is_replicated) {
      form.is_replicated = rule.form.is_replicated;
    }
  }
  return form;
}

void ArrayRules::Use::note_nearest(const Rule& rule, std::string_view checkpointable, std::string_view path,
                                   Outcome& outcome) {
  if (outcome.has_matched) {
    return;
  }
  const std::size_t alike =
      likeness(rule.pattern, path) +
      (rule.checkpointable ? likeness(*rule.checkpointable, checkpointable) : std::size_t{0});
  if (alike > outcome.likeness) {
    outcome.likeness = alike;
    outcome.nearest = path.empty()          ? fmt::format("'{}'", checkpointable)
                      : rule.checkpointable ? fmt::format("'{}' of '{}'", path, checkpointable)
                                            : fmt::format("'{}'", path);
  }
}

void ArrayRules::Use::end() const {
  std::vector<std::string> unused;
  std::vector<std::string> nearest;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const Outcome& outcome = outcomes_[i];
    if (outcome.has_matched) {
      continue;
    }
    unused.push_back(rules_[i].describe());
    if (!outcome.nearest.empty() &&
        std::find(nearest.begin(), nearest.end(), outcome.nearest) == nearest.end()) {
      nearest.push_back(outcome.nearest);
    }
  }
  if (!unused.empty()) {
    throw Error(Errc::invalid_argument,
                fmt::format("no array of this save matches {}{}{}", fmt::join(unused, ", "),
                            nearest.empty() ? "" : "; the nearest: ", fmt::join(nearest, ", ")));
  }
}

}  // namespace cairn
