// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/handlers/tree.hpp"
#include "cairn/megatron/state_dict.hpp"

namespace cairn::megatron {

// What Megatron-Core calls dict_utils. Paths are those of trees: "optimizer/param_groups/0/lr". All refuse a dict that
// is deeper than kMaxTreeDepth (Errc::invalid_argument).

using Predicate = std::function<bool(const StateDict& leaf)>;

/// Divides a dict in two: the leaves that match, and the others. Containers that have nothing left vanish.
///
/// A container that was empty counts as not matching where it is the value of a key, and is asked about where it is an
/// element of a list. Elements of lists move up; with `lists_as_maps` lists become maps, whose keys are their
/// positions.
/// Errors: Errc::type_mismatch when `dict` is not a map or list.
[[nodiscard]] std::pair<StateDict, StateDict> extract_matching_values(const StateDict& dict,
                                                                      const Predicate& matches,
                                                                      bool lists_as_maps = false);

/// Adds what `from` has to `into`: maps key by key, lists element by element.
///
/// Errors: Errc::structure_mismatch, naming the path, for a leaf that both have and for lists of other lengths.
void merge(StateDict& into, StateDict from);

/// Paths at which two dicts differ, each in the order of the dicts.
struct Differences {
  std::vector<std::string> only_left;
  std::vector<std::string> only_right;
  std::vector<std::string> mismatched;  ///< Both have something there, but not the same.

  [[nodiscard]] bool empty() const noexcept {
    return only_left.empty() && only_right.empty() && mismatched.empty();
  }
};

/// Compares two dicts. Numbers and arrays are equal when their bits are; of tensors and objects the data count only.
[[nodiscard]] Differences diff(const StateDict& left, const StateDict& right);

/// A dict of the same containers, with `work(leaf)` in place of each leaf. It is how a plain state becomes a sharded
/// one.
///
/// Errors: what `work` throws.
[[nodiscard]] StateDict map(const StateDict& dict,
                            const std::function<StateDict(const StateDict& leaf)>& work);

/// Replaces each factory by what it builds, those that it builds included.
///
/// Errors: naming the path. What `build` throws; Errc::invalid_argument for a factory without data or function, and for
///         one that builds another in its own place.
void apply_factories(StateDict& dict);

/// Replaces what was loaded where `factories` has one by what that merges it to. Lists that `factories` has as maps, as
/// extract_matching_values makes them, are found by their positions.
///
/// Errors: naming the path. What `merge` throws; Errc::structure_mismatch where nothing was loaded.
void apply_factory_merges(Tree& loaded, const StateDict& factories);

/// Puts `prefix` before the keys of all tensors, objects and factories.
void add_prefix_for_sharding(StateDict& dict, std::string_view prefix);

/// Replaces the prefix of all keys.
///
/// Errors: Errc::invalid_argument, naming a key that does not begin with it; then nothing was changed.
void replace_prefix_for_sharding(StateDict& dict, std::string_view old_prefix, std::string_view new_prefix);

/// Replaces, in each key that begins with one, the first of these prefixes that it begins with.
void apply_prefix_mapping(StateDict& dict, const std::vector<std::pair<std::string, std::string>>& mapping);

}  // namespace cairn::megatron
