// SPDX-License-Identifier: Apache-2.0
#include "divide.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/sharding/policy.hpp"
#include "cairn/sharding/sharding.hpp"

#include "formats/internal/index.hpp"
#include "sharding/internal/box_table.hpp"

namespace cairn::detail {
namespace {

const Shape& shape_of(const HeldArray& array) {
  return array.sharded != nullptr ? array.sharded->shape() : array.whole->shape();
}

DType dtype_of(const HeldArray& array) {
  return array.sharded != nullptr ? array.sharded->dtype() : array.whole->dtype();
}

/// The order of shards, and of placed boxes.
template <class T>
bool is_before(const T& a, const T& b) {
  const auto in_order = [](const Shape& x, const Shape& y) {
    return std::lexicographical_compare_three_way(x.begin(), x.end(), y.begin(), y.end());
  };
  const auto offsets = in_order(a.box.offsets(), b.box.offsets());
  const auto order = offsets != 0 ? offsets : in_order(a.box.extents(), b.box.extents());
  return order != 0 ? order < 0 : a.replica < b.replica;
}

/// Refuses a box that the rank holds twice as the same replica; the boxes are in order.
void check_replicas(const sharding::RankBoxes& array_boxes, std::uint32_t rank) {
  for (std::size_t i = 1; i < array_boxes.boxes.size(); ++i) {
    if (array_boxes.boxes[i] == array_boxes.boxes[i - 1]) {
      throw Error(
          Errc::invalid_argument,
          fmt::format("{}: rank {} holds box {} twice as replica {}", formats::shown(array_boxes.name), rank,
                      to_string(array_boxes.boxes[i].box), array_boxes.boxes[i].replica));
    }
  }
}

/// The same; of replicas in this process the first.
std::vector<const Shard*> different_shards(const HeldArray& array) {
  std::vector<const Shard*> shards = sorted_shards(*array.sharded);
  shards.erase(std::unique(shards.begin(), shards.end(),
                           [](const Shard* a, const Shard* b) { return a->box == b->box; }),
               shards.end());
  return shards;
}

/// The layout of an array, where it is a rule that gives just the boxes that the rank holds of it.
std::optional<Sharding> rule_of(const ShardedArray& array, std::span<const PlacedBox> held,
                                std::uint32_t rank, std::uint32_t ranks) {
  const auto* rule = dynamic_cast<const Sharding*>(array.layout().get());
  if (rule == nullptr || rule->kind() == Sharding::Kind::table || rank >= rule->ranks() ||
      rule->ranks() > ranks) {
    return std::nullopt;
  }
  std::vector<PlacedBox> boxes = rule->boxes(rank, array.shape());
  std::erase_if(boxes, [](const PlacedBox& placed) { return placed.box.is_empty(); });
  std::sort(boxes.begin(), boxes.end(), is_before<PlacedBox>);
  const bool is_same = std::equal(boxes.begin(), boxes.end(), held.begin(), held.end());
  return is_same ? std::optional(*rule) : std::nullopt;
}

/// Finds the shards of one array that this rank holds.
class HeldShards {
 public:
  explicit HeldShards(const HeldArray& array) : shards_(different_shards(array)), table_(boxes_of(shards_)) {}

  /// The elements of a box that lies within a shard.
  [[nodiscard]] Array part(const Box& box) const {
    const sharding::BoxOverlap overlap = table_.overlaps(box).at(0);
    const Shard& shard = *shards_[overlap.number];
    return shard.box == box ? shard.data : shard.data.part(within(box, shard.box));
  }

  /// `inner` in coordinates of `outer`.
  static Box within(const Box& inner, const Box& outer) {
    Shape offsets = inner.offsets();
    for (std::size_t d = 0; d < offsets.size(); ++d) {
      offsets[d] -= outer.begin(d);
    }
    return {std::move(offsets), inner.extents()};
  }

 private:
  static std::vector<Box> boxes_of(std::span<const Shard* const> shards) {
    std::vector<Box> boxes;
    for (const Shard* shard : shards) {
      boxes.push_back(shard->box);
    }
    return boxes;
  }

  std::vector<const Shard*> shards_;
  sharding::BoxTable table_;
};

/// Holds what this process writes of the arrays of a policy.
struct PolicyParts {
  const ShardingPolicy* policy = nullptr;  ///< Null: of those that none divides.
  std::vector<WrittenPart> parts;
};

/// First what no policy divides, then the policies in the order of their first arrays, also where nothing is written
/// of those here.
std::vector<PolicyParts> by_policy(std::span<const HeldArray> arrays, std::vector<WrittenPart> parts) {
  std::vector<PolicyParts> groups(1);
  std::unordered_map<const ShardingPolicy*, std::size_t> numbers = {{nullptr, 0}};
  for (const HeldArray& array : arrays) {
    if (numbers.emplace(array.policy, groups.size()).second) {
      groups.push_back({array.policy, {}});
    }
  }
  for (WrittenPart& part : parts) {
    groups[numbers.at(arrays[part.array].policy)].parts.push_back(std::move(part));
  }
  return groups;
}

/// Shows a policy what this process writes.
class PolicyInput {
 public:
  PolicyInput(const array_store::Writer& writer, std::span<const HeldArray> arrays,
              std::span<const WrittenPart> parts, const SaveContext& context) {
    for (const WrittenPart& part : parts) {
      const HeldArray& array = arrays[part.array];
      ShardableTensor& tensor = tensors_.emplace_back();
      tensor.key =
          keys_.emplace_back(array.path.empty() ? context.name() : context.name() + "/" + array.path);
      const std::size_t slash = tensor.key.rfind('/');
      tensor.name = tensor.key.substr(slash == std::string_view::npos ? 0 : slash + 1);
      tensor.owner = array.path.empty() ? tensor.key : tensor.key.substr(0, slash);
      tensor.dtype = part.values.dtype();
      if (const DType stored = writer.stored_as(array.path, tensor.dtype); stored != tensor.dtype) {
        tensor.storage_dtype = stored;
      }
      tensor.full = shape_of(array);
      if (!part.box.is_whole(tensor.full)) {
        tensor.slice = part.box;
      }
      tensor.size_bytes = byte_count(tensor.stored(), part.box.extents()).value_or(0);
      tensor.device = part.values.view().device();
      tensor.task = static_cast<std::uint32_t>(context.coordinator().rank());
      tensor.host = context.coordinator().host();
      tensor.view = &part.values.view();
    }
  }

  [[nodiscard]] std::span<const ShardableTensor> tensors() const noexcept { return tensors_; }

 private:
  std::vector<ShardableTensor> tensors_;
  std::deque<std::string> keys_;  // Stay where they are.
};

constexpr std::size_t kMostWarnings = 20;  // Of one policy: it may warn of each array.

void tell_warnings(const ShardingPolicy& policy, std::span<const std::string> warnings,
                   const SaveContext& context) {
  const auto tell = [&](std::string_view words) {
    context.add_problem(
        fmt::format("'{}': sharding policy \"{}\": {}", context.name(), policy.description(), words));
  };
  const std::size_t shown = std::min(warnings.size(), kMostWarnings);
  for (const std::string& warning : warnings.first(shown)) {
    tell(warning);
  }
  if (shown < warnings.size()) {
    tell(fmt::format("{} more warnings", warnings.size() - shown));
  }
}

/// Asks a policy, and checks what it says.
std::vector<FilePlan> ask(const ShardingPolicy& policy, std::span<const ShardableTensor> tensors,
                          const SaveContext& context) {
  const auto begin = std::chrono::steady_clock::now();
  const auto refuse = [&policy](std::error_code code, std::string_view why) {
    throw Error(code, fmt::format("sharding policy \"{}\": {}", policy.description(), why));
  };
  std::vector<FilePlan> files;
  try {
    files = policy(tensors);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const Error& error) {
    refuse(error.code(), error.detail());
  } catch (...) {
    refuse(make_error_code(Errc::handler_failed), describe(std::current_exception()));
  }
  check_policy_result(policy, tensors, files);
  WorkFigures figures;
  figures.count = files.size();
  for (const ShardableTensor& tensor : tensors) {
    figures.bytes += tensor.size_bytes;
  }
  figures.time = std::chrono::steady_clock::now() - begin;
  context.add_policy(policy.description(), figures);
  tell_warnings(policy, policy.warnings(tensors, files), context);
  return files;
}

void add_part(array_store::Writer& writer, const HeldArray& array, const Box& box, const Array& values,
              DType stored) {
  if (array.whole != nullptr && box.is_whole(shape_of(array))) {
    writer.add(array.path, values, stored);
  } else {
    writer.add_part(array.path, shape_of(array), box, values, stored);
  }
}

/// Gives a writer the parts that no policy divides: the first box of each array goes into the file that is begun, the
/// second into the next. Then no file holds two boxes of an array, of which torch would read the first only. Of an
/// array in more boxes than `most_files`, all are in one file, which torch refuses.
void add_undivided(array_store::Writer& writer, std::span<const HeldArray> arrays,
                   std::span<const WrittenPart> parts, std::size_t most_files) {
  std::vector<std::vector<const WrittenPart*>> files(1);
  for (std::size_t begin = 0, end = 0; begin < parts.size(); begin = end) {
    while (end < parts.size() && parts[end].array == parts[begin].array) {
      ++end;
    }
    const bool has_files = end - begin <= most_files;
    files.resize(std::max(files.size(), has_files ? end - begin : 1));
    for (std::size_t i = begin; i < end; ++i) {
      files[has_files ? i - begin : 0].push_back(&parts[i]);
    }
  }
  for (std::size_t file = 0; file < files.size(); ++file) {
    if (file > 0) {
      writer.next_file();
    }
    for (const WrittenPart* part : files[file]) {
      const HeldArray& array = arrays[part->array];
      add_part(writer, array, part->box, part->values, writer.stored_as(array.path, dtype_of(array)));
    }
  }
}

/// Gives a writer the parts in the files of a policy.
void add_files(array_store::Writer& writer, std::span<const HeldArray> arrays,
               std::span<const WrittenPart> parts, std::span<const FilePlan> files) {
  for (const FilePlan& file : files) {
    writer.next_file();
    for (const TensorPart& placed : file) {
      const WrittenPart& part = parts[placed.tensor];
      const HeldArray& array = arrays[part.array];
      const Box& box = placed.box ? *placed.box : part.box;
      const DType stored = writer.stored_as(array.path, dtype_of(array));
      if (placed.values != nullptr) {
        writer.keep_values(true);
        add_part(writer, array, box, *placed.values, stored);
        writer.keep_values(false);
      } else {
        const bool is_all = box == part.box;
        add_part(writer, array, box,
                 is_all ? part.values : part.values.part(HeldShards::within(box, part.box)), stored);
      }
    }
  }
}

/// Says which arrays are one on this rank: those with further names, and those of which it holds nothing, which may be.
void set_same(std::span<const HeldArray> arrays, std::vector<sharding::RankBoxes>& rank_boxes) {
  std::unordered_map<std::string_view, std::uint32_t> named;  // Those that have further names.
  for (const HeldArray& array : arrays) {
    if (!array.same_as.empty()) {
      named.emplace(array.same_as, 0);
    }
  }
  std::optional<std::uint32_t> first_without;
  std::uint32_t number = 0;
  for (const HeldArray& array : arrays) {
    if (array.sharded == nullptr) {
      continue;
    }
    sharding::RankBoxes& array_boxes = rank_boxes[number];
    if (const auto first = named.find(array.path); first != named.end()) {
      first->second = number;
    }
    if (!array.same_as.empty()) {
      array_boxes.same_as = named.at(array.same_as);
    } else if (array_boxes.boxes.empty() && element_count(array_boxes.shape) != 0) {
      array_boxes.same_as = first_without;
      first_without = first_without.value_or(number);
    }
    ++number;
  }
}

/// Gives a writer the further names of arrays of which this rank writes something.
void add_aliases(array_store::Writer& writer, std::span<const HeldArray> arrays,
                 const sharding::RankAssignments& assignments) {
  std::vector<const HeldArray*> sharded;
  for (const HeldArray& array : arrays) {
    if (array.sharded != nullptr) {
      sharded.push_back(&array);
    } else if (array.is_mine && !array.same_as.empty()) {
      writer.entries().add_alias(array.path, array.same_as);
    }
  }
  const auto comes_before = [](const sharding::WriteAssignment& assignment, std::uint32_t array) {
    return assignment.array < array;
  };
  for (std::size_t i = 0; i < assignments.same_as.size(); ++i) {
    if (const auto first = assignments.same_as[i]) {
      const auto assignment = std::lower_bound(assignments.assignments.begin(), assignments.assignments.end(),
                                               *first, comes_before);
      if (assignment != assignments.assignments.end() && assignment->array == *first) {
        writer.entries().add_alias(sharded[i]->path, sharded[*first]->path);
      }
    }
  }
}

}  // namespace

std::vector<const Shard*> sorted_shards(const ShardedArray& array) {
  std::vector<const Shard*> shards;
  for (const Shard& shard : array.shards()) {
    if (!shard.box.is_empty()) {
      shards.push_back(&shard);
    }
  }
  std::sort(shards.begin(), shards.end(), [](const Shard* a, const Shard* b) { return is_before(*a, *b); });
  return shards;
}

std::vector<sharding::RankBoxes> rank_boxes_of(std::span<const HeldArray> arrays, std::uint32_t rank,
                                               std::uint32_t ranks) {
  std::vector<sharding::RankBoxes> rank_boxes;
  for (const HeldArray& array : arrays) {
    if (array.sharded == nullptr) {
      continue;
    }
    sharding::RankBoxes& array_boxes = rank_boxes.emplace_back();
    array_boxes.name = array.path;
    array_boxes.dtype = array.sharded->dtype();
    array_boxes.shape = array.sharded->shape();
    for (const Shard* shard : sorted_shards(*array.sharded)) {
      array_boxes.boxes.push_back({shard->box, shard->replica});
    }
    check_replicas(array_boxes, rank);
    array_boxes.rule = rule_of(*array.sharded, array_boxes.boxes, rank, ranks);
  }
  set_same(arrays, rank_boxes);
  return rank_boxes;
}

sharding::RankAssignments assignments_alone(std::span<const HeldArray> arrays,
                                            const sharding::PlanOptions& options) {
  sharding::RankAssignments alone;
  std::vector<sharding::PlannedArray> planned;
  for (sharding::RankBoxes& array_boxes : rank_boxes_of(arrays, 0, 1)) {
    planned.push_back({std::move(array_boxes.name), array_boxes.dtype, std::move(array_boxes.shape),
                       Sharding::of_boxes({std::move(array_boxes.boxes)}), 0, array_boxes.same_as});
    alone.same_as.push_back(array_boxes.same_as);
  }
  alone.assignments = sharding::AssignmentPlan(std::move(planned), 1, options).assignments(0);
  return alone;
}

std::vector<WrittenPart> parts_of(std::span<const HeldArray> arrays,
                                  std::span<const sharding::WriteAssignment> assignments) {
  std::vector<WrittenPart> parts;
  auto assignment = assignments.begin();
  std::uint32_t planned = 0;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const HeldArray& array = arrays[i];
    if (array.whole != nullptr) {
      if (array.is_mine && array.same_as.empty()) {
        parts.push_back({i, Box::whole(array.whole->shape()), *array.whole});
      }
      continue;
    }
    const Shape& shape = array.sharded->shape();
    if (array.is_mine && element_count(shape) == 0) {
      parts.push_back({i, Box::whole(shape), Array(shape, array.sharded->dtype())});  // Nobody's assignment.
    }
    std::optional<HeldShards> held;
    for (; assignment != assignments.end() && assignment->array == planned; ++assignment) {
      if (!held) {
        held.emplace(array);
      }
      parts.push_back({i, assignment->box, held->part(assignment->box)});
    }
    ++planned;
  }
  return parts;
}

void add_divided(array_store::Writer& writer, std::span<const HeldArray> arrays,
                 const sharding::RankAssignments& assignments, std::size_t most_files,
                 const SaveContext& context) {
  for (const HeldArray& array : arrays) {
    if (array.sharded != nullptr && array.sharded->layout() != nullptr) {
      writer.set_layout(array.path, array.sharded->layout());
    }
  }
  const std::vector<PolicyParts> groups = by_policy(arrays, parts_of(arrays, assignments.assignments));
  for (const PolicyParts& group : groups) {
    if (group.policy == nullptr) {
      add_undivided(writer, arrays, group.parts, most_files);
      continue;
    }
    writer.set_policy(group.policy->description());
    if (!group.parts.empty()) {  // No policy expects to be asked about nothing.
      const PolicyInput input(writer, arrays, group.parts, context);
      add_files(writer, arrays, group.parts, ask(*group.policy, input.tensors(), context));
    }
  }
  add_aliases(writer, arrays, assignments);
}

}  // namespace cairn::detail
