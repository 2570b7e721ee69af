// SPDX-License-Identifier: Apache-2.0
// What options of arrays say to other ranks, which must have them alike.
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/handlers/array_rules.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/handlers/tree_handler.hpp"

namespace cairn {
namespace {

std::string_view name(ReplicaChoice choice) {
  switch (choice) {
    case ReplicaChoice::main:
      return "main";
    case ReplicaChoice::balanced:
      return "balanced";
    case ReplicaChoice::balanced_and_split:
      break;
  }
  return "balanced_and_split";
}

std::string words_of(const ArrayForm& form) {
  std::string words;
  if (form.storage_dtype) {
    words += fmt::format(", stored as {}{}", *form.storage_dtype,
                         form.narrowing == Narrowing::allowed ? " with narrowing" : "");
  }
  words += form.keeps_dtype ? ", stored as in memory" : "";
  words += form.has_no_policy ? ", undivided" : "";
  if (form.is_replicated) {
    words += *form.is_replicated ? ", replicated" : ", not replicated";
  }
  if (form.policy != nullptr) {
    words += fmt::format(", divided by \"{}\"", form.policy->description());
  }
  return words;
}

}  // namespace

OptionWords ArrayOptions::same_on_all_ranks() const {
  OptionWords words;
  if (storage_dtype) {
    words.emplace_back("ArrayOptions::storage_dtype", cairn::name(*storage_dtype));
  }
  if (narrowing == Narrowing::allowed) {
    words.emplace_back("ArrayOptions::narrowing", "allowed");
  }
  return words;
}

OptionWords ShardingOptions::same_on_all_ranks() const {
  OptionWords words;
  if (policy != nullptr) {
    words.emplace_back("ShardingOptions::policy", policy->description());
  }
  if (replicas != ReplicaChoice::balanced_and_split) {
    words.emplace_back("ShardingOptions::replicas", name(replicas));
  }
  if (paths == RankPaths::joined) {
    words.emplace_back("ShardingOptions::paths", "joined");
  }
  return words;
}

OptionWords ArrayRules::same_on_all_ranks() const {
  OptionWords words;
  for (const Rule& rule : rules_) {
    const std::string form = words_of(rule.form);
    if (!form.empty()) {  // By number: later rules win.
      words.emplace_back(fmt::format("rule {} of ArrayRules", words.size() + 1), rule.describe() + form);
    }
  }
  return words;
}

}  // namespace cairn
