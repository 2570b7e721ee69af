// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/contract/any_value.hpp"
#include "cairn/sharding/policy.hpp"
#include "cairn/staging/pieces.hpp"

namespace cairn {

namespace detail {
class PathPattern;
}

/// How arrays are stored that a rule is about. What it does not say, an earlier rule says or the options of the save.
struct ArrayForm {
  ArrayForm() = default;

  explicit ArrayForm(DType storage, Narrowing narrowing_allowed = Narrowing::refused)
      : storage_dtype(storage), narrowing(narrowing_allowed) {}

  explicit ArrayForm(Snapshot mode) : snapshot(mode) {}

  explicit ArrayForm(std::shared_ptr<const ShardingPolicy> divided_by) : policy(std::move(divided_by)) {}

  /// Stored as in memory, whatever earlier rules and ArrayOptions say.
  [[nodiscard]] static ArrayForm as_in_memory() {
    ArrayForm form;
    form.keeps_dtype = true;
    return form;
  }

  /// In as few files as the format allows, whatever earlier rules and ShardingOptions say.
  [[nodiscard]] static ArrayForm undivided() {
    ArrayForm form;
    form.has_no_policy = true;
    return form;
  }

  /// The same on all ranks of a job, which then share out the elements of such an array of a tree among them, as they
  /// do with Sharding::replicated. Otherwise rank 0 writes it alone: nobody else knows that they are copies.
  [[nodiscard]] static ArrayForm replicated(bool is_replicated = true) {
    ArrayForm form;
    form.is_replicated = is_replicated;
    return form;
  }

  /// The dtype on disk. A floating dtype leaves integers, booleans and complex numbers as they are.
  std::optional<DType> storage_dtype;
  /// Says whether the cast to it may lose values. Default: such a save fails.
  Narrowing narrowing = Narrowing::refused;
  /// See as_in_memory.
  bool keeps_dtype = false;
  /// Says who keeps the elements unchanged. `copy` costs time and memory where the save borrows; `share` saves both for
  /// arrays that have owners; `borrow` needs SaveOptions::snapshot to say so, too, since then the caller's memory is
  /// kept for longer.
  std::optional<Snapshot> snapshot;
  /// Which file gets what, in place of ShardingOptions::policy. The policy is asked once for each tree or array that
  /// is saved, with all arrays that it divides, and makes files of its own.
  std::shared_ptr<const ShardingPolicy> policy;
  /// See undivided.
  bool has_no_policy = false;
  /// See replicated. Where ranks are seen to have other values, the save fails with Errc::ranks_differ.
  std::optional<bool> is_replicated;
};

/// How arrays are stored that differ from the others, for saves: `save_options.handler_options.set(rules)`.
///
/// A pattern is made like a path: keys joined by '/'. In a key `*` stands for any characters; `**` in place of a key
/// stands for any number of keys, also none. So "params/**" is all that lies below 'params', "**/bias" every 'bias',
/// and "**" everything. Later rules win, each in what it says. A rule that matches no array of a save fails it
/// (Errc::invalid_argument): it is a mistake in its spelling.
/// Threads:  a value.
/// Example:  ArrayRules rules;
///           rules.add("params/**", ArrayForm(DType::bfloat16, Narrowing::allowed))
///               .add("params/norm/*", ArrayForm::as_in_memory());
class ArrayRules {
 public:
  struct Rule {
    std::optional<std::string> checkpointable;  ///< Whose arrays; nothing: those of any.
    std::string pattern;
    ArrayForm form;

    /// "the rule 'params/**' for 'model'".
    [[nodiscard]] std::string describe() const;
  };

  /// For the arrays of every checkpointable.
  ///
  /// Errors: Errc::invalid_argument when the pattern has an empty key or a `**` that is not all of one, when the
  ///         dtype is none, or the form says nothing.
  ArrayRules& add(std::string pattern, ArrayForm form);

  /// As above, in short.
  ArrayRules& add(std::string pattern, DType storage, Narrowing narrowing = Narrowing::refused) {
    return add(std::move(pattern), ArrayForm(storage, narrowing));
  }

  ArrayRules& add(std::string pattern, Snapshot snapshot) {
    return add(std::move(pattern), ArrayForm(snapshot));
  }

  ArrayRules& add(std::string pattern, std::shared_ptr<const ShardingPolicy> policy) {
    return add(std::move(pattern), ArrayForm(std::move(policy)));
  }

  /// For the arrays of one checkpointable.
  ArrayRules& add_for(std::string checkpointable, std::string pattern, ArrayForm form);

  [[nodiscard]] std::span<const Rule> rules() const noexcept { return rules_; }

  /// See OptionSet. Snapshots are left out; of policies there is what they say of themselves.
  [[nodiscard]] OptionWords same_on_all_ranks() const;

  class Use;

 private:
  ArrayRules& append(Rule rule);

  std::vector<Rule> rules_;
};

/// The rules in one save: remembers which of them matched.
class ArrayRules::Use final : public OptionUse {
 public:
  explicit Use(const ArrayRules& rules);

  /// Returns what the rules say of an array; `path` is empty where the array is all of the checkpointable.
  [[nodiscard]] ArrayForm form_of(std::string_view checkpointable, std::string_view path);

  /// Errors: Errc::invalid_argument, naming the rules that no array matched, and the arrays that are most like them.
  void end() const override;

 private:
  /// Holds what has come of a rule.
  struct Outcome {
    bool has_matched = false;
    std::size_t likeness = 0;  ///< Of the array that is most like the pattern, until one matches.
    std::string nearest;       ///< What that is called; empty when none is like it.
  };

  static void note_nearest(const Rule& rule, std::string_view checkpointable, std::string_view path,
                           Outcome& outcome);

  std::vector<Rule> rules_;
  std::shared_ptr<const std::vector<detail::PathPattern>> patterns_;
  std::vector<Outcome> outcomes_;
};

}  // namespace cairn
