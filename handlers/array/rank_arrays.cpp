// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/rank_arrays.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/shared_memory.hpp"
#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/handlers/array_rules.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/handlers/tree.hpp"
#include "cairn/sharding/sharding.hpp"

#include "aliases.hpp"
#include "divide.hpp"
#include "handlers/internal/array_files.hpp"
#include "handlers/internal/path_pattern.hpp"
#include "ranks.hpp"
#include "same_copies.hpp"
#include "same_values.hpp"

namespace cairn {
namespace {

/// A value that is not an array.
struct HeldValue {
  std::string path;
  const Tree* leaf = nullptr;
  std::uint32_t number = 0;  ///< Among all leaves of the rank.
};

/// The leaves of a rank, sorted by who writes them. Those that this rank writes for sure are with its writer already.
struct Leaves {
  std::vector<detail::HeldArray>
      arrays;                     ///< Sharded ones, those that a policy divides, and those yet to be given.
  std::vector<HeldValue> values;  ///< Those yet to be given to a rank.
  std::deque<ShardedArray> replicated;  ///< Arrays that rules say all ranks have; `arrays` refers to them.
  bool has_sharded = false;
  std::uint32_t count = 0;
  sharding::LeafList list;  ///< What ranks compare; empty where there are no others.
  detail::SameValues same;
};

/// A leaf that is kept here.
struct OwnLeaf {
  std::string path;
  Tree leaf;
};

/// How an array is divided.
struct Division {
  const ShardingPolicy* policy = nullptr;  ///< Among files; null: none.
  bool is_replicated = false;              ///< All ranks have it, and share it out.
};

/// Returns whether rules (null: there are none) decide how some array is divided among files or ranks.
bool has_divisions(const ArrayRules* rules) {
  return rules != nullptr &&
         std::any_of(rules->rules().begin(), rules->rules().end(), [](const ArrayRules::Rule& rule) {
           return rule.form.policy != nullptr || rule.form.has_no_policy || rule.form.is_replicated;
         });
}

const ShardingPolicy* policy_of_save(const SaveContext& context) {
  const ShardingOptions* given = context.option<ShardingOptions>();
  return given != nullptr ? given->policy.get() : nullptr;
}

/// Tells the save what rank 0 writes alone, on disk.
void note_alone(const SaveContext& context, const array_store::Writer& writer, const Leaves& leaves) {
  std::uint64_t bytes = writer.element_bytes();  // What no policy divides.
  for (const detail::HeldArray& held : leaves.arrays) {
    if (held.whole != nullptr && held.is_mine) {
      const DType stored = writer.stored_as(held.path, held.whole->dtype());
      bytes += byte_count(stored, held.whole->shape()).value_or(0);
    }
  }
  context.note_alone(bytes);
}

/// Leaves a further name to an array that is whole only where one rank writes both.
void settle_names(std::vector<detail::HeldArray>& arrays) {
  std::unordered_map<std::string_view, bool> is_mine;
  for (const detail::HeldArray& array : arrays) {
    is_mine.emplace(array.path, array.is_mine);
  }
  for (detail::HeldArray& array : arrays) {
    if (array.whole != nullptr && !array.same_as.empty() && !is_mine.at(array.same_as)) {
      array.same_as.clear();
    }
  }
}

/// Returns what this rank writes, as all ranks agree.
Awaitable<detail::AgreedLeaves> agree(SaveContext context, coord::Channel* ranks, detail::LeavesOfRank mine) {
  const auto before = context.kept<detail::KeptAssignments>();
  detail::AgreedLeaves agreed = co_await detail::agree_on_assignments(*ranks, std::move(mine), before);
  if (agreed.assignments != before) {
    context.keep(agreed.assignments);
  }
  co_return agreed;
}

/// A program that does not look at problems has been told once that its ranks differ.
struct ToldDifference {};

/// Says of a save where other ranks have values that rank 0's stand for; refuses them where they must not.
///
/// Errors: Errc::ranks_differ, on all ranks.
Awaitable<> tell_differences(SaveContext context, detail::AgreedLeaves agreed) {
  coord::Channel ranks = *context.channel("values");
  const detail::NamedDifferences found = co_await detail::name_differences(
      ranks, std::move(agreed.mine.values), std::move(agreed.mine.said.leaves));
  if (found.words.empty()) {
    co_return;
  }
  const auto refuse = [&](std::string_view why) {
    ranks.refuse_together(
        Error(Errc::ranks_differ, fmt::format("'{}': {}: {}", context.name(), why, found.words)));
  };
  if (found.is_mixed) {
    refuse(
        "arrays that rules call replicated differ from those of rank 0, and each rank writes a part of them");
  }
  if (context.ranks_must_agree()) {
    refuse("values that are not sharded differ from those of rank 0");
  }
  const std::string words = fmt::format(
      "'{}': values that are not sharded were saved as rank 0 has them, and are others elsewhere: {} (shard "
      "them, save "
      "them by of_each_rank, give them other names on each rank, or list them in `may_differ`)",
      context.name(), found.words);
  if (context.coordinator().rank() != 0 || context.kept<ToldDifference>() != nullptr) {
    context.add_problem(words);
    co_return;
  }
  context.keep(std::make_shared<const ToldDifference>());
  context.tell(words);
}

/// Hashes what ranks compare, on another thread than the one that copies.
// outlives: the caller keeps the values until this has ended.
Awaitable<> hash_values(SaveContext context, detail::SameValues& values) {
  std::function<void()> work = [&values] { values.compute(); };
  co_await context.run(std::move(work));
  if (values.not_compared() > 0) {
    context.count_problem(
        "values on devices that are not sharded are saved as rank 0 has them, and were not compared with "
        "those of other "
        "ranks; leaves",
        values.not_compared());
  }
}

// outlives: the caller keeps the copies until this has ended.
Awaitable<> hash_copies(SaveContext context, detail::SameCopies& copies) {
  std::function<void()> work = [&copies] { copies.compute(); };
  co_await context.run(std::move(work));
}

// outlives: the caller keeps the slot until this has ended.
Awaitable<> store_result(Awaitable<Background<>> writing, std::optional<Background<>>& slot) {
  slot.emplace(co_await std::move(writing));
}

/// The slow case of values that differ is settled in the background, where nobody waits for it.
Background<> finish_agreed(SaveContext context, detail::AgreedLeaves agreed, Background<> files,
                           std::shared_ptr<SameOnRanks> same, std::optional<detail::SameCopies> copies) {
  co_await std::move(files);
  if (copies) {
    Awaitable<> comparing = detail::require_same_copies(context, *std::move(copies));
    co_await std::move(comparing);
  }
  if (!same->is_alike) {
    co_await tell_differences(std::move(context), std::move(agreed));
  }
}

/// Rank 0 writes everything, as no rank has a sharded array, while the ranks compare whether all have the same leaves.
Background<> compare_and_finish(SaveContext context, coord::Channel ranks, detail::LeavesOfRank mine,
                                std::optional<Background<>> written) {
  detail::AgreedLeaves agreed = co_await agree(context, &ranks, std::move(mine));
  if (!agreed.has_same_values) {
    co_await tell_differences(std::move(context), std::move(agreed));
  }
  if (written) {
    co_await std::move(*written);
  }
}

}  // namespace

struct RankArrays::State {
  State(SaveContext save, RankArrayOptions how)
      : context(std::move(save)),
        options(std::move(how)),
        ranks(context.channel("leaves")),
        joins(ranks && options.paths == RankPaths::joined),
        rank(static_cast<std::uint32_t>(context.coordinator().rank())),
        rules(context.use<ArrayRules>()),
        policy(policy_of_save(context)),
        has_ruled_divisions(has_divisions(context.option<ArrayRules>())),
        writer(array_writer(context)) {
    for (const std::string& pattern : context.may_differ()) {
      may_differ.emplace_back(pattern, "SaveOptions::may_differ");
    }
  }

  /// Each array is looked at while it is in the caches.
  void add_leaf(std::string_view path, const Tree& leaf, bool notes_memory);
  void add_tree(const Tree& tree);
  void find_names(const Tree& tree);
  [[nodiscard]] std::vector<detail::ArrayLeaf> leaves_at(const Tree& tree,
                                                         const std::vector<std::size_t>& numbers) const;
  void note_memory(const Array* array, const ShardedArray* sharded);
  void list_leaf(std::string_view path, const Tree& leaf, const ShardedArray* sharded);
  [[nodiscard]] Division division_of(std::string_view path, bool is_sharded) const;
  [[nodiscard]] ShardedArray as_replica(const Array& array);
  [[nodiscard]] sharding::PlanOptions plan_options() const;
  [[nodiscard]] detail::LeavesOfRank take_said();
  void take_written(const sharding::RankAssignments& assignments);

  const SaveContext context;
  const RankArrayOptions options;
  std::optional<coord::Channel> ranks;  // Nothing: there are no others.
  const bool joins;
  const std::uint32_t rank;
  ArrayRules::Use* const rules;        // Null: there are none.
  const ShardingPolicy* const policy;  // Of the arrays that no rule gives another one; null: none.
  const bool has_ruled_divisions;
  std::vector<detail::PathPattern> may_differ;  // Of leaves.
  array_store::Writer writer;
  std::optional<formats::IndexBuilder> values;  // Where ranks join their leaves: those of ranks but rank 0.
  std::deque<OwnLeaf> own;                      // Leaves refer to them.
  Leaves leaves;
  std::size_t next_array = 0;                             // The number of the next array of the tree.
  ArrayMemory memory;                                     // Of these arrays.
  std::map<std::string, std::string, std::less<>> names;  // Further names of arrays, and the first ones.
  std::shared_ptr<const Sharding> replicated;             // Made for the first array that is.
};

void RankArrays::State::add_leaf(std::string_view path, const Tree& leaf, bool notes_memory) {
  const Array* array = leaf.array_if();
  const ShardedArray* sharded = leaf.sharded_array_if();
  const std::uint32_t number = leaves.count++;
  const bool is_array = array != nullptr || sharded != nullptr;
  const Division division = is_array ? division_of(path, sharded != nullptr) : Division();
  if (array != nullptr && division.is_replicated) {
    sharded = &leaves.replicated.emplace_back(as_replica(*std::exchange(array, nullptr)));
  }
  if (ranks) {
    list_leaf(path, leaf, sharded);
  }
  leaves.has_sharded |= sharded != nullptr;
  if (notes_memory && is_array) {
    note_memory(array, sharded);
  }
  const auto name = names.find(path);
  const std::string first = name != names.end() ? name->second : std::string();
  if (sharded != nullptr || (array != nullptr && (joins || (division.policy != nullptr && first.empty())))) {
    leaves.arrays.push_back(
        {std::string(path), array, sharded, division.policy, first, number, rank == 0 && !joins});
  } else if (joins) {
    leaves.values.push_back({std::string(path), &leaf, number});
  } else if (rank != 0) {
    return;
  } else if (array == nullptr) {
    add_value(writer.entries(), path, leaf);
  } else if (first.empty()) {
    writer.add(path, *array);
  } else {
    writer.entries().add_alias(path, first);
  }
}

/// Walks the tree once. Where arrays turn out to have several names, it walks a second time, and gives them those.
void RankArrays::State::add_tree(const Tree& tree) {
  visit_leaves(tree, [this](std::string_view path, const Tree& leaf) { add_leaf(path, leaf, true); });
  find_names(tree);
  if (names.empty()) {
    return;
  }
  writer = array_writer(context);
  leaves = Leaves();
  for (const OwnLeaf& one : own) {
    add_leaf(one.path, one.leaf, false);
  }
  visit_leaves(tree, [this](std::string_view path, const Tree& leaf) { add_leaf(path, leaf, false); });
}

void RankArrays::State::find_names(const Tree& tree) {
  const std::vector<std::size_t> meeting = memory.take_meeting();
  if (meeting.empty()) {
    return;
  }
  detail::FoundAliases found = detail::find_aliases(leaves_at(tree, meeting));
  if (!found.overlap.empty()) {
    context.add_problem(
        fmt::format("'{}': arrays that share memory without being the same are each saved by itself, and a "
                    "load into that memory will be refused: {}",
                    context.name(), found.overlap));
  }
  names = std::move(found.names);
}

/// The arrays among the leaves of the tree, by their numbers.
std::vector<detail::ArrayLeaf> RankArrays::State::leaves_at(const Tree& tree,
                                                            const std::vector<std::size_t>& numbers) const {
  std::vector<detail::ArrayLeaf> found;
  auto next = numbers.begin();
  std::size_t number = 0;
  visit_leaves(tree, [&](std::string_view path, const Tree& leaf) {
    const Array* array = leaf.array_if();
    const ShardedArray* sharded = leaf.sharded_array_if();
    if ((array == nullptr && sharded == nullptr) || next == numbers.end() || number++ != *next) {
      return;
    }
    ++next;
    const DType dtype = array != nullptr ? array->dtype() : sharded->dtype();
    const Division division = division_of(path, sharded != nullptr);
    found.push_back(
        {std::string(path), &leaf, writer.stored_as(path, dtype), division.policy, division.is_replicated});
  });
  return found;
}

/// Notes the memory of an array that this rank writes, as far as it knows.
void RankArrays::State::note_memory(const Array* array, const ShardedArray* sharded) {
  if (array != nullptr && (rank == 0 || joins)) {
    memory.add(next_array, array->view());
  } else if (sharded != nullptr) {
    for (const Shard& shard : sharded->shards()) {
      memory.add(next_array, shard.data.view());
    }
  }
  ++next_array;
}

void RankArrays::State::list_leaf(std::string_view path, const Tree& leaf, const ShardedArray* sharded) {
  const bool is_replicated = sharded != nullptr && leaf.is_array();
  const bool is_free =
      leaf.is_random_state() ||
      (!is_replicated && std::any_of(may_differ.begin(), may_differ.end(),
                                     [path](const auto& each) { return each.matches(path); }));
  if (is_free) {
    leaves.same.add_none();
  } else {
    leaves.same.add(leaf, is_replicated);
  }
  if (sharded != nullptr) {
    leaves.list.add_array_in_parts(path, sharded->dtype(), sharded->shape());
  } else if (const Array* array = leaf.array_if()) {
    leaves.list.add_array(path, array->dtype(), array->shape());
  } else if (leaf.is_list()) {
    leaves.list.add_list(path, leaf.size());
  } else if (leaf.is_map()) {
    leaves.list.add_empty_map(path);
  } else {
    leaves.list.add_value(path, name(leaf.kind()));
  }
}

/// How an array is divided. The rules of a sharded one have then matched, also where this rank writes nothing of it.
Division RankArrays::State::division_of(std::string_view path, bool is_sharded) const {
  if (rules == nullptr || !(is_sharded || has_ruled_divisions)) {
    return {policy, false};
  }
  const ArrayForm form = rules->form_of(context.name(), path);
  return {form.policy != nullptr || form.has_no_policy ? form.policy.get() : policy,
          ranks && form.is_replicated.value_or(false)};
}

/// An array of which each rank has a copy, as this rank holds it.
ShardedArray RankArrays::State::as_replica(const Array& array) {
  if (replicated == nullptr) {
    replicated = std::make_shared<const Sharding>(
        Sharding::replicated(static_cast<std::uint32_t>(context.coordinator().size())));
  }
  std::vector<Shard> shards = {{Box::whole(array.shape()), array, rank}};
  return {array.shape(), array.dtype(), std::move(shards), replicated};
}

sharding::PlanOptions RankArrays::State::plan_options() const {
  sharding::PlanOptions plan;
  plan.replicas = options.replicas;
  plan.is_covered_by_main = options.is_covered_by_main;
  return plan;
}

/// Returns what this rank says; its lists are given away.
detail::LeavesOfRank RankArrays::State::take_said() {
  detail::LeavesOfRank mine;
  mine.name = context.name();
  mine.ranks = static_cast<std::uint32_t>(context.coordinator().size());
  mine.said.rank = rank;
  mine.said.paths = options.paths;
  mine.said.group = options.group;
  mine.said.leaves = std::move(leaves.list);
  mine.said.boxes = detail::rank_boxes_of(leaves.arrays, rank, mine.ranks);
  mine.values = std::move(leaves.same);
  mine.options = plan_options();
  return mine;
}

/// Takes the leaves that this rank writes where each has been given to one. At rank 0 rules match the arrays of all.
void RankArrays::State::take_written(const sharding::RankAssignments& assignments) {
  for (const std::string& path : assignments.arrays_of_others) {
    static_cast<void>(division_of(path, true));
  }
  std::vector<bool> is_mine(leaves.count);
  for (const std::uint32_t number : assignments.leaves) {
    is_mine[number] = true;
  }
  for (detail::HeldArray& array : leaves.arrays) {
    array.is_mine = is_mine[array.leaf];
  }
  settle_names(leaves.arrays);
  values.emplace();
  for (const HeldValue& value : leaves.values) {
    if (is_mine[value.number]) {
      add_value(rank == 0 ? writer.entries() : *values, value.path, *value.leaf);
    }
  }
}

RankArrayOptions::RankArrayOptions(const SaveContext& context) {
  if (const ShardingOptions* given = context.option<ShardingOptions>()) {
    paths = given->paths;
    replicas = given->replicas;
  }
}

RankArrays::RankArrays(SaveContext context, RankArrayOptions options)
    : state_(std::make_unique<State>(std::move(context), std::move(options))) {}

RankArrays::~RankArrays() = default;
RankArrays::RankArrays(RankArrays&&) noexcept = default;
RankArrays& RankArrays::operator=(RankArrays&&) noexcept = default;

void RankArrays::add(std::string path, ShardedArray array) {
  const OwnLeaf& added = state_->own.emplace_back(OwnLeaf{std::move(path), Tree(std::move(array))});
  state_->add_leaf(added.path, added.leaf, false);
}

void RankArrays::add(std::string path, Array array) {
  const OwnLeaf& added = state_->own.emplace_back(OwnLeaf{std::move(path), Tree(std::move(array))});
  state_->add_leaf(added.path, added.leaf, false);
}

void RankArrays::add_leaves(const Tree& tree) {
  state_->add_tree(tree);
}

Awaitable<Background<>> RankArrays::write() && {
  return write_all(std::move(state_));
}

Awaitable<Background<>> RankArrays::write_all(std::unique_ptr<State> state) {
  State& here = *state;
  const SaveContext context = here.context;
  const bool has_plan = here.ranks && (here.leaves.has_sharded || here.joins);
  detail::AgreedLeaves agreed;
  sharding::RankAssignments assignments;
  if (has_plan) {
    detail::LeavesOfRank mine = here.take_said();
    Awaitable<detail::AgreedLeaves> agreeing = agree(context, &*here.ranks, std::move(mine));
    agreed = co_await std::move(agreeing);
    assignments = agreed.assignments->assignments;
  } else if (here.leaves.has_sharded) {
    assignments = detail::assignments_alone(here.leaves.arrays, here.plan_options());
  }
  if (here.joins) {
    here.take_written(assignments);
    agreed.mine.values.choose(assignments.common);
  }
  if (here.ranks && here.rank == 0) {
    note_alone(context, here.writer, here.leaves);
  }
  if (!here.leaves.arrays.empty()) {
    detail::add_divided(here.writer, here.leaves.arrays, assignments, here.options.most_files, context);
  }
  if (here.options.most_files == 1) {
    here.writer.mean_marked();
  }
  if (!here.ranks) {
    co_return co_await write_arrays(context, std::move(here.writer));
  }
  std::optional<Background<>> written;
  std::vector<Awaitable<>> tasks;
  if (has_plan) {
    const auto same = std::make_shared<SameOnRanks>();
    tasks.push_back(store_result(
        write_arrays(context, std::move(here.writer), std::move(*here.ranks), same, std::move(here.values)),
        written));
    tasks.push_back(hash_values(context, agreed.mine.values));
    std::optional<detail::SameCopies> copies;
    if (here.joins) {
      copies.emplace().add(here.leaves.arrays, assignments.assignments);
      tasks.push_back(hash_copies(context, *copies));
    }
    co_await async::when_all(std::move(tasks));
    same->hash = agreed.mine.values.hash();
    co_return finish_agreed(context, std::move(agreed), std::move(*written), same, std::move(copies));
  }
  detail::LeavesOfRank mine = here.take_said();
  if (here.rank == 0) {
    tasks.push_back(store_result(write_arrays(context, std::move(here.writer)), written));
  }
  tasks.push_back(hash_values(context, mine.values));
  co_await async::when_all(std::move(tasks));
  co_return compare_and_finish(context, std::move(*here.ranks), std::move(mine), std::move(written));
}

}  // namespace cairn
