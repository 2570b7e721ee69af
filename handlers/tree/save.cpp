// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/array/shared_memory.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/formats/index_builder.hpp"
#include "cairn/handlers/array_files.hpp"
#include "cairn/handlers/array_rules.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/handlers/tree_handler.hpp"
#include "cairn/sharding/sharding.hpp"

#include "aliases.hpp"
#include "containers.hpp"
#include "divide.hpp"
#include "index_names.hpp"
#include "ranks.hpp"

namespace cairn {
namespace {

/// The leaves of a tree, sorted by who writes them.
struct Leaves {
  std::vector<detail::HeldArray> divided;  ///< Sharded arrays, and those that a policy divides.
  std::deque<ShardedArray> replicated;  ///< Arrays that rules say all ranks have; `divided` refers to them.
  bool has_sharded = false;
  std::uint64_t alone_bytes = 0;  ///< In memory, of the arrays that rank 0 writes alone.
  std::string lines;              ///< What ranks compare; empty where there are no others.
  detail::SameValues values;
};

/// Returns whether rules (null: there are none) decide how some array is divided among files or ranks.
bool has_divisions(const ArrayRules* rules) {
  return rules != nullptr &&
         std::any_of(rules->rules().begin(), rules->rules().end(), [](const ArrayRules::Rule& rule) {
           return rule.form.policy != nullptr || rule.form.has_no_policy || rule.form.is_replicated;
         });
}

/// How an array is divided.
struct Division {
  const ShardingPolicy* policy = nullptr;  ///< Among files; null: none.
  bool is_replicated = false;              ///< All ranks have it, and share it out.
};

/// Walks the tree once: each array is looked at while it is in the caches. What rank 0 writes alone is given to its
/// writer. Where arrays turn out to have several names, it walks a second time, and gives the writer those names.
class LeafWalk {
 public:
  LeafWalk(array_store::Writer& writer, const SaveContext& context, bool has_ranks)
      : writer_(writer),
        context_(context),
        rules_(context.use<ArrayRules>()),
        name_(context.name()),
        policy_(detail::sharding_options(context).policy.get()),
        has_ruled_divisions_(has_divisions(context.option<ArrayRules>())),
        rank_(static_cast<std::uint32_t>(context.coordinator().rank())),
        has_ranks_(has_ranks) {}

  Leaves run(const Tree& tree) {
    const auto add_leaf = [this](std::string_view at, const Tree& leaf) { add(at, leaf); };
    visit(tree, add_leaf);
    const std::vector<std::size_t> meeting = memory_.take_meeting();
    if (!meeting.empty()) {
      detail::FoundAliases found = detail::find_aliases(leaves_at(tree, meeting));
      if (!found.overlap.empty()) {
        context_.add_problem(fmt::format(
            "'{}': arrays that share memory without being the same are each saved by itself, and a "
            "load into that memory will be refused: {}",
            name_, found.overlap));
      }
      aliases_ = std::move(found.names);
    }
    if (!aliases_.empty()) {
      writer_ = array_writer(context_);
      leaves_ = Leaves();
      visit(tree, add_leaf);
    }
    return std::move(leaves_);
  }

 private:
  template <class Visit>
  static void visit(const Tree& tree, Visit& visit_leaf) {
    std::string path;
    detail::TreeAccess::visit(tree, path, 0, visit_leaf);
  }

  /// The arrays among the leaves, by their numbers.
  std::vector<detail::ArrayLeaf> leaves_at(const Tree& tree, const std::vector<std::size_t>& numbers) {
    std::vector<detail::ArrayLeaf> leaves;
    auto next = numbers.begin();
    std::size_t number = 0;
    const auto take = [&](std::string_view path, const Tree& leaf) {
      if (next != numbers.end() && number++ == *next) {
        const Array* array = leaf.array_if();
        const DType dtype = array != nullptr ? array->dtype() : leaf.sharded_array_if()->dtype();
        const Division division = division_of(path, array == nullptr);
        leaves.push_back({std::string(path), &leaf, writer_.stored_as(path, dtype), division.policy,
                          division.is_replicated});
        ++next;
      }
    };
    visit(tree, take);
    return leaves;
  }

  /// Notes the memory of an array that this rank writes, as far as it knows.
  void note_memory(const Array* array, const ShardedArray* sharded) {
    if (array != nullptr && rank_ == 0) {
      memory_.add(leaf_, array->view());
    } else if (sharded != nullptr) {
      for (const Shard& shard : sharded->shards()) {
        memory_.add(leaf_, shard.data.view());
      }
    }
    ++leaf_;
  }

  void add(std::string_view path, const Tree& leaf) {
    const Array* array = leaf.array_if();
    const ShardedArray* sharded = leaf.sharded_array_if();
    if (has_ranks_) {
      add_line(path, leaf);
      leaves_.values.add(leaf);
    }
    const bool is_array = array != nullptr || sharded != nullptr;
    const Division division = is_array ? division_of(path, sharded != nullptr) : Division();
    if (array != nullptr && division.is_replicated) {
      sharded = &leaves_.replicated.emplace_back(as_replica(*std::exchange(array, nullptr)));
    }
    leaves_.has_sharded |= sharded != nullptr;
    leaves_.alone_bytes += array != nullptr ? array->byte_count() : 0;
    const auto alias = aliases_.find(path);
    if (aliases_.empty()) {
      note_memory(array, sharded);
    } else if (array != nullptr && alias != aliases_.end()) {
      return writer_.entries().add_alias(path, alias->second);
    }
    if (sharded != nullptr || division.policy != nullptr) {
      leaves_.divided.push_back({std::string(path), array, sharded, division.policy,
                                 alias != aliases_.end() ? alias->second : std::string()});
    } else if (rank_ != 0) {
      return;
    } else if (array != nullptr) {
      writer_.add(path, *array);
    } else {
      detail::add_scalar(writer_.entries(), path, leaf);
    }
  }

  /// How an array is divided. The rules of a sharded one have then matched, also where this rank writes nothing of it.
  Division division_of(std::string_view path, bool is_sharded) {
    if (rules_ == nullptr || !(is_sharded || has_ruled_divisions_)) {
      return {policy_, false};
    }
    const ArrayForm form = rules_->form_of(name_, path);
    return {form.policy != nullptr || form.has_no_policy ? form.policy.get() : policy_,
            has_ranks_ && form.is_replicated.value_or(false)};
  }

  /// An array of which each rank has a copy, as this rank holds it.
  ShardedArray as_replica(const Array& array) {
    if (replicated_ == nullptr) {
      replicated_ = std::make_shared<const Sharding>(
          Sharding::replicated(static_cast<std::uint32_t>(context_.coordinator().size())));
    }
    std::vector<Shard> shards = {{Box::whole(array.shape()), array, rank_}};
    return {array.shape(), array.dtype(), std::move(shards), replicated_};
  }

  void add_line(std::string_view path, const Tree& leaf) {
    if (const Array* array = leaf.array_if()) {
      leaves_.lines += detail::line_of_array(path, name(leaf.kind()), array->dtype(), array->shape());
    } else if (const ShardedArray* sharded = leaf.sharded_array_if()) {
      leaves_.lines += detail::line_of_array(path, name(leaf.kind()), sharded->dtype(), sharded->shape());
    } else {
      leaves_.lines += detail::line_of_leaf(path, name(leaf.kind()));
    }
  }

  array_store::Writer& writer_;
  const SaveContext& context_;
  ArrayRules::Use* const rules_;  // Null: there are none.
  const std::string name_;
  const ShardingPolicy* const policy_;  // Of the arrays that no rule gives another one; null: none.
  const bool has_ruled_divisions_;
  const std::uint32_t rank_;
  const bool has_ranks_;
  Leaves leaves_;
  std::size_t leaf_ = 0;  // The number of the next one.
  ArrayMemory memory_;
  std::map<std::string, std::string, std::less<>> aliases_;  // Further names of arrays, and the first ones.
  std::shared_ptr<const Sharding> replicated_;               // Made for the first array that is.
};

/// Tells the save what rank 0 writes alone, on disk.
void note_alone(const SaveContext& context, const array_store::Writer& writer, const Leaves& leaves) {
  std::uint64_t bytes = writer.element_bytes();  // What no policy divides.
  for (const detail::HeldArray& held : leaves.divided) {
    if (held.whole != nullptr) {
      const DType stored = writer.stored_as(held.path, held.whole->dtype());
      bytes += byte_count(stored, held.whole->shape()).value_or(0);
    }
  }
  context.note_alone(bytes);
}

detail::RankLeaves leaves_of_rank(const SaveContext& context, Leaves& leaves) {
  detail::RankLeaves mine;
  mine.name = context.name();
  mine.rank = context.coordinator().rank();
  mine.ranks = context.coordinator().size();
  mine.lines = std::move(leaves.lines);
  mine.values = std::move(leaves.values);
  mine.rank_boxes = detail::rank_boxes_of(leaves.divided, static_cast<std::uint32_t>(mine.rank),
                                          static_cast<std::uint32_t>(mine.ranks));
  mine.alone_bytes = leaves.alone_bytes;
  mine.replicas = detail::sharding_options(context).replicas;
  return mine;
}

/// Returns what this rank writes, as all ranks agree.
Awaitable<detail::AgreedLeaves> agree(SaveContext context, coord::Channel* ranks, detail::RankLeaves mine) {
  const auto before = context.kept<detail::KeptAssignments>();
  detail::AgreedLeaves agreed = co_await detail::agree_on_assignments(*ranks, std::move(mine), before);
  if (agreed.assignments != before) {
    context.keep(agreed.assignments);
  }
  co_return agreed;
}

/// Says of a save where other ranks have values that rank 0's stand for.
Awaitable<> tell_differences(SaveContext context, detail::AgreedLeaves agreed) {
  coord::Channel ranks = *context.channel("values");
  const std::string words =
      co_await detail::name_differences(ranks, std::move(agreed.mine.values), std::move(agreed.mine.lines));
  if (!words.empty()) {
    context.add_problem(fmt::format("'{}': {}", context.name(), words));
  }
}

/// Hashes what ranks compare, on another thread than the one that copies.
// outlives: the caller keeps the values until this has ended.
Awaitable<> hash_values(SaveContext context, detail::SameValues& values) {
  std::function<void()> work = [&values] { values.compute(); };
  co_await context.run(std::move(work));
  if (values.not_compared() > 0) {
    context.count_problem(
        "values that are not sharded are saved as rank 0 has them, and were not compared with those of other "
        "ranks where they "
        "have more than 64 KiB, or 16 MiB together, or are on devices; leaves",
        values.not_compared());
  }
}

// outlives: the caller keeps the slot until this has ended.
Awaitable<> store_result(Awaitable<Background<>> writing, std::optional<Background<>>& slot) {
  slot.emplace(co_await std::move(writing));
}

/// The slow case of values that differ is settled in the background, where nobody waits for it.
Background<> finish(SaveContext context, detail::AgreedLeaves agreed, Background<> files,
                    std::shared_ptr<SameOnRanks> same) {
  co_await std::move(files);
  if (!same->is_alike) {
    co_await tell_differences(std::move(context), std::move(agreed));
  }
}

/// Rank 0 writes everything, as no rank has a sharded array, while the ranks compare whether all have the same leaves.
Background<> compare_and_finish(SaveContext context, coord::Channel ranks, detail::RankLeaves mine,
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

// outlives: `value` is valid during this phase; what is kept of it, pieces own or the caller promised
Awaitable<Background<>> TreeHandler::save(SaveContext context, const Tree& value) const {
  array_store::Writer writer = array_writer(context);
  std::optional<coord::Channel> ranks = context.channel("leaves");
  Leaves leaves = LeafWalk(writer, context, ranks.has_value()).run(value);
  if (ranks && context.coordinator().rank() == 0) {
    note_alone(context, writer, leaves);
  }
  detail::RankAssignments assignments;
  detail::AgreedLeaves agreed;
  if (ranks && leaves.has_sharded) {
    agreed = co_await agree(context, &*ranks, leaves_of_rank(context, leaves));
    assignments = agreed.assignments->assignments;
  } else if (leaves.has_sharded) {
    assignments = detail::assignments_alone(leaves.divided, detail::sharding_options(context).replicas);
  }
  if (!leaves.divided.empty()) {
    detail::add_divided(writer, leaves.divided, assignments, context);
  }
  if (!ranks) {
    co_return co_await write_arrays(std::move(context), std::move(writer));
  }
  std::optional<Background<>> written;
  std::vector<Awaitable<>> tasks;
  if (leaves.has_sharded) {
    const auto same = std::make_shared<SameOnRanks>();
    tasks.push_back(store_result(write_arrays(context, std::move(writer), std::move(*ranks), same), written));
    tasks.push_back(hash_values(context, agreed.mine.values));
    co_await async::when_all(std::move(tasks));
    same->hash = agreed.mine.values.hash();
    co_return finish(std::move(context), std::move(agreed), std::move(*written), same);
  }
  detail::RankLeaves mine = leaves_of_rank(context, leaves);
  if (mine.rank == 0) {
    tasks.push_back(store_result(write_arrays(context, std::move(writer)), written));
  }
  tasks.push_back(hash_values(context, mine.values));
  co_await async::when_all(std::move(tasks));
  co_return compare_and_finish(std::move(context), std::move(*ranks), std::move(mine), std::move(written));
}

}  // namespace cairn
