// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/array_rules.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"

#include "handlers/internal/path_pattern.hpp"

namespace cairn {
namespace {

using detail::likeness;

constexpr std::string_view kWhose = "a rule for arrays";

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
  static_cast<void>(detail::PathPattern(rule.pattern, kWhose));  // For its refusal.
  check_form(rule);
  rules_.push_back(std::move(rule));
  return *this;
}

ArrayRules::Use::Use(const ArrayRules& rules)
    : rules_(rules.rules().begin(), rules.rules().end()), outcomes_(rules_.size()) {
  std::vector<detail::PathPattern> patterns;
  for (const Rule& rule : rules_) {
    patterns.emplace_back(rule.pattern, kWhose);
  }
  patterns_ = std::make_shared<const std::vector<detail::PathPattern>>(std::move(patterns));
}

ArrayForm ArrayRules::Use::form_of(std::string_view checkpointable, std::string_view path) {
  ArrayForm form;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const Rule& rule = rules_[i];
    if ((rule.checkpointable && *rule.checkpointable != checkpointable) || !(*patterns_)[i].matches(path)) {
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
