// SPDX-License-Identifier: Apache-2.0
// State dicts in Megatron-Core's words: what they add to trees, and flat optimizer states in other layouts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/cairn.hpp"
#include "cairn/megatron/dist_checkpointing.hpp"

#include "base/internal/aligned_memory.hpp"
#include "bench/operations.hpp"
#include "bench/report.hpp"
#include "bench/thread_ranks.hpp"

namespace cairn::bench {
namespace {

using megatron::FlatRange;
using megatron::ShardedTensor;
using megatron::StateDict;

std::string key_of(std::size_t number) {
  return fmt::format("optimizer.state.exp_avg.layers.{:05}.weight", number);
}

Array used_floats(std::uint64_t count) {
  Array memory({count}, DType::float32);
  const std::span<std::byte> bytes = memory.mutable_view().bytes();
  touch(bytes.data(), bytes.size());
  return memory;
}

// ---- What a state dict adds.

/// Whole tensors; or flat ones, two of a key, each of three boxes.
std::vector<ShardedTensor> small_tensors(const Workload& workload, bool is_flat) {
  const Shape shape{4, 4, 4};
  std::vector<ShardedTensor> tensors;
  for (std::size_t i = 0; i < workload.count; ++i) {
    if (is_flat) {
      const FlatRange range = i % 2 == 0 ? FlatRange{0, 43} : FlatRange{43, 64};
      tensors.push_back(
          ShardedTensor::from_rank_offsets_flat(key_of(i / 2), used_floats(range.size()), shape, {}, range));
    } else {
      tensors.push_back(ShardedTensor::from_rank_offsets(key_of(i), used_floats(64).reshaped(shape)));
    }
  }
  return tensors;
}

StateDict as_dict(const std::vector<ShardedTensor>& tensors) {
  StateDict dict;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    dict[fmt::format("{:05}", i)] = tensors[i];
  }
  return dict;
}

/// The same as sharded arrays.
Tree as_tree(const std::vector<ShardedTensor>& tensors) {
  Tree tree = Tree::map();
  for (std::size_t i = 0; i < tensors.size();) {
    const ShardedTensor& first = tensors[i];
    std::vector<Shard> shards;
    for (; i < tensors.size() && tensors[i].key == first.key; ++i) {
      for (Shard& shard : megatron::shards_of(tensors[i], 0)) {
        shards.push_back(std::move(shard));
      }
    }
    tree[first.key] = ShardedArray(first.global_shape, first.dtype, std::move(shards));
  }
  return tree;
}

AbstractTree as_request(const Tree& tree) {
  AbstractTree wanted;
  for (const auto& [key, leaf] : tree.as_map()) {
    const ShardedArray& array = *leaf.sharded_array_if();
    AbstractShardedArray boxes(array.shape(), array.dtype());
    for (const Shard& shard : array.shards()) {
      boxes.place_into(shard.box, shard.data);
    }
    wanted[key] = std::move(boxes);
  }
  return wanted;
}

template <class Call>
double seconds_of(const Call& call) {
  const Stopwatch watch;
  call();
  return watch.seconds();
}

void measure_tensors(const Workload& workload, bool is_flat, int round) {
  const std::vector<ShardedTensor> tensors = small_tensors(workload, is_flat);
  const StateDict dict = as_dict(tensors);
  const Tree tree = as_tree(tensors);
  const AbstractTree wanted = as_request(tree);
  const Context context;
  const auto tree_path = workload.directory / "tree";
  const auto dict_path = workload.directory / "dict";
  SaveOptions tree_options;
  tree_options.overwrite = true;
  megatron::StateDictSaveOptions dict_options;
  dict_options.save.overwrite = true;
  nlohmann::ordered_json line = line_of("megatron_tensors", workload);
  line["form"] = is_flat ? "three boxes each" : "whole";
  line["round"] = round;
  line["build_s"] = seconds_of([&] { static_cast<void>(as_tree(tensors)); });
  line["tree_save_s"] = seconds_of([&] { save(tree_path, tree, tree_options, context); });
  line["dict_save_s"] = seconds_of([&] { megatron::save(dict, dict_path, dict_options, context); });
  static_cast<void>(drop_page_cache(workload.directory));
  line["tree_load_s"] = seconds_of([&] {
    static_cast<void>(load_checkpointables(tree_path, {{"state", wanted}}, LoadOptions(), context));
  });
  line["dict_load_s"] = seconds_of([&] { static_cast<void>(megatron::load(dict, dict_path, {}, context)); });
  print(line);
}

// ---- Flat states in other layouts.

struct Layout {
  std::uint32_t tensor_parallel = 1;
  std::uint32_t data_parallel = 1;

  [[nodiscard]] std::uint32_t ranks() const { return tensor_parallel * data_parallel; }
};

/// Whose elements lie where: each parameter is cut along `axis` among tensor-parallel ranks, and what one of those has
/// is flattened and cut among data-parallel ones, within a row.
struct FlatState {
  const Workload& workload;
  std::size_t axis = 0;

  [[nodiscard]] Shape local_shape(const Layout& layout) const {
    Shape shape{workload.rows, workload.columns};
    shape[axis] /= layout.tensor_parallel;
    return shape;
  }

  [[nodiscard]] FlatRange range(const Layout& layout, std::uint32_t rank) const {
    const std::uint64_t number = rank / layout.tensor_parallel;
    const std::uint64_t each = *element_count(local_shape(layout)) / layout.data_parallel;
    const bool is_last = number + 1 == layout.data_parallel;
    return {number * each + number, (number + 1) * each + (is_last ? 0 : number + 1)};
  }

  /// Element `i` of what a rank has of parameter `number`.
  [[nodiscard]] float value(const Layout& layout, std::uint32_t rank, std::size_t number,
                            std::uint64_t i) const {
    const Shape shape = local_shape(layout);
    const std::uint64_t flat = range(layout, rank).begin + i;
    std::uint64_t at[] = {flat / shape[1], flat % shape[1]};
    at[axis] += rank % layout.tensor_parallel * shape[axis];
    return static_cast<float>((at[0] * workload.columns + at[1] + number) % 8191);
  }

  [[nodiscard]] StateDict of(const Layout& layout, std::uint32_t rank, bool is_filled) const {
    StateDict dict;
    for (std::size_t number = 0; number < workload.count; ++number) {
      const FlatRange own = range(layout, rank);
      Array data = used_floats(own.size());
      if (is_filled) {
        std::uint64_t i = 0;
        for (float& element : data.data<float>()) {
          element = value(layout, rank, number, i++);
        }
      }
      dict[key_of(number)] = ShardedTensor::from_rank_offsets_flat(
          key_of(number), std::move(data), local_shape(layout),
          {{axis, rank % layout.tensor_parallel, layout.tensor_parallel}}, own);
    }
    return dict;
  }

  /// Compares the first and the last elements of each parameter.
  [[nodiscard]] bool is_right(const Layout& layout, std::uint32_t rank, const StateDict& loaded) const {
    constexpr std::uint64_t kCompared = 10'000;
    for (std::size_t number = 0; number < workload.count; ++number) {
      const auto values = loaded[key_of(number)].leaf_if<ShardedTensor>()->data->data<const float>();
      const std::uint64_t most = std::min<std::uint64_t>(kCompared, values.size());
      for (std::uint64_t i = 0; i < most; ++i) {
        const std::uint64_t last = values.size() - 1 - i;
        if (values[i] != value(layout, rank, number, i) ||
            values[last] != value(layout, rank, number, last)) {
          return false;
        }
      }
    }
    return true;
  }
};

constexpr Layout kSaved{2, 4};
constexpr Layout kLoaded{4, 2};

void save_flat(const FlatState& state, const ThreadRanks& ranks) {
  ranks.on_all([&](std::size_t rank, const Context& context) {
    megatron::StateDictSaveOptions options;
    options.save.overwrite = true;
    return megatron::save(state.of(kSaved, static_cast<std::uint32_t>(rank), true),
                          state.workload.directory / "ck", options, context)
        .bytes;
  });
}

void load_flat(const FlatState& state, const ThreadRanks& ranks, bool is_together, int round) {
  std::vector<StateDict> requests;
  for (std::uint32_t rank = 0; rank < kLoaded.ranks(); ++rank) {
    requests.push_back(state.of(kLoaded, rank, false));
  }
  const auto path = state.workload.directory / "ck";
  megatron::StateDictLoadOptions options;
  options.is_alone = !is_together;
  const bool is_cold = drop_page_cache(path);
  const Stopwatch watch;
  const std::uint64_t read_bytes = ranks.on_all([&](std::size_t rank, const Context& context) {
    return megatron::load(requests[rank], path, options, context).result.bytes;
  });
  nlohmann::ordered_json line = line_of("megatron_reshard", state.workload);
  line["axis"] = state.axis;
  line["form"] = is_together ? "together" : "alone";
  line["round"] = round;
  line["cache"] = is_cold ? "cold" : "perhaps warm";
  line["load_s"] = watch.seconds();
  line["read_per_wanted"] = static_cast<double>(read_bytes) / static_cast<double>(state.workload.bytes());
  bool is_right = true;
  for (std::uint32_t rank = 0; rank < kLoaded.ranks(); ++rank) {
    is_right = is_right && state.is_right(kLoaded, rank, requests[rank]);
  }
  line["check"] = is_right ? "ok" : "wrong";
  print(line);
}

}  // namespace

void run_megatron_tensors(const Workload& workload) {
  for (int round = 0; round < workload.saves; ++round) {
    measure_tensors(workload, false, round);
    measure_tensors(workload, true, round);
  }
}

void run_megatron_reshard(const Workload& workload) {
  const ThreadRanks ranks(kSaved.ranks(), std::size_t{1} << 30);
  for (const std::size_t axis : {std::size_t{0}, std::size_t{1}}) {
    const FlatState state{workload, axis};
    save_flat(state, ranks);
    for (int round = 0; round < workload.saves; ++round) {
      load_flat(state, ranks, true, round);
      load_flat(state, ranks, false, round);
    }
  }
}

}  // namespace cairn::bench
