// SPDX-License-Identifier: Apache-2.0
// A model and its optimizer, as a program has them: layers along a prepended axis, gated units, flat optimizer buffers,
// objects; saved in one layout, loaded in others.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/megatron/dict_functions.hpp"
#include "cairn/megatron/factory.hpp"
#include "cairn/megatron/optimizer.hpp"

#include "memory_checkpoint.hpp"

namespace cairn::megatron {
namespace {

using testing::counted;
using testing::cut;
using testing::flat;
using testing::MemoryCheckpoint;

constexpr std::uint64_t kLayers = 4;

struct Parallelism {
  std::uint32_t tp = 1;
  std::uint32_t pp = 1;
  std::uint32_t dp = 1;
};

Array sum(const Array& array, std::int32_t difference) {
  Array changed = array.clone();
  for (std::int32_t& element : changed.data<std::int32_t>()) {
    element += difference;
  }
  return changed;
}

/// What one rank has. Elements of the parameters are those of the global arrays plus `difference`; those of the
/// optimizer have 10,000 or 20,000 more.
struct RankState {
  RankState(const Parallelism& layout, std::uint32_t rank, std::int32_t difference, bool is_flat)
      : tp(rank % layout.tp), dp(rank / layout.tp % layout.dp), pp(rank / layout.tp / layout.dp) {
    const std::uint64_t layers = kLayers / layout.pp;
    std::vector<Array> params;
    StateDict::List model;
    for (std::uint64_t i = 0; i < layers; ++i) {
      const std::uint64_t layer = pp * layers + i;
      const std::uint64_t rows = 12 / layout.tp;
      const std::uint64_t half = 6 / layout.tp;
      params.push_back(
          sum(cut(counted({kLayers, 12, 5}), Box({layer, tp * rows, 0}, {1, rows, 5})).reshaped({rows, 5}),
              difference));
      const Array fc1 = counted({kLayers, 12, 5}, 1000);
      const std::vector<Array> halves = {cut(fc1, Box({layer, tp * half, 0}, {1, half, 5})),
                                         cut(fc1, Box({layer, 6 + tp * half, 0}, {1, half, 5}))};
      params.push_back(sum(concatenate(halves, 1).reshaped({2 * half, 5}), difference));
      model.push_back(
          {{"qkv",
            ShardedTensor::from_rank_offsets("layers.qkv", params[2 * i],
                                             {{0, layer, kLayers}, {1, tp, layout.tp}}, {{0, 0, dp}, 1})},
           {"fc1", swiglu_factory("layers.fc1", params[2 * i + 1], 1,
                                  {{0, layer, kLayers}, {1, tp, layout.tp}}, {{0, 0, dp}, 1})},
           {"extra", ShardedObject{"layers.extra", Tree(layer), {kLayers}, {layer}, {0, tp, dp}}}});
    }
    dict["model"]["layers"] = StateDict::list(std::move(model));
    const ParamMap map = param_id_to_sharded_param(dict, params);
    dict["optimizer"] = is_flat ? flat_states(params, map, layout) : whole_states(params, map);
    dict["rng"] = ShardedObject{"rng", Tree{{"pp", pp}, {"tp", tp}}, {layout.pp, layout.tp}, {pp, tp}, {dp}};
    dict["step"] = 7;
  }

  static StateDict whole_states(const std::vector<Array>& params, const ParamMap& map) {
    StateDict optimizer = {
        {"param_groups", StateDict::list({{{"lr", 0.5}, {"params", Tree::list({0, 1})}}})}};
    for (std::size_t id = 0; id < params.size(); ++id) {
      optimizer["state"][std::to_string(id)] = {{"exp_avg", sum(params[id], 10000)}, {"step", 3}};
    }
    optim_state_to_sharding_state(optimizer, map, {"step"});
    return optimizer;
  }

  /// The same in one buffer of two buckets, each parameter from a multiple of 8 on.
  StateDict flat_states(const std::vector<Array>& params, const ParamMap& map,
                        const Parallelism& layout) const {
    FlatBuffer buffer{"float", {}, {}};
    std::vector<Array> elements;
    std::uint64_t end = 0;
    const std::pair<std::size_t, std::size_t> ids_of_buckets[] = {{0, 2}, {2, params.size()}};
    for (const auto& [begin_id, end_id] : ids_of_buckets) {
      Bucket bucket{end, 0, 0};
      std::vector<std::int32_t> values;
      for (std::size_t id = begin_id; id < end_id; ++id) {
        values.resize((values.size() + 7) / 8 * 8, -1);
        const auto param = params[id].data<const std::int32_t>();
        buffer.params.push_back({id, bucket.begin + values.size(),
                                 bucket.begin + values.size() + param.size(), buffer.buckets.size()});
        values.insert(values.end(), param.begin(), param.end());
      }
      bucket.unpadded_end = bucket.begin + values.size();
      values.resize((values.size() + 24 * layout.dp - 1) / (24 * layout.dp) * 24 * layout.dp, -1);
      end = bucket.end = bucket.begin + values.size();
      buffer.buckets.push_back(bucket);
      elements.push_back(Array::adopt(std::move(values)));
    }
    BucketStates states(buffer.buckets.size());
    for (std::size_t b = 0; b < states.size(); ++b) {
      const std::uint64_t size = elements[b].element_count() / layout.dp;
      const Array part = cut(elements[b], Box({dp * size}, {size}));
      states[b]["exp_avg"] = sum(part, 10000);
      states[b]["param"] = sum(part, 20000);
    }
    return {{"state", flat_model_space(buffer, states, map, {dp, layout.dp})},
            {"param_groups",
             StateDict::list({{{"lr", 0.5}, {"params", LocalNonpersistentObject{Tree::list({0, 1})}}}})}};
  }

  std::uint32_t tp;
  std::uint32_t dp;
  std::uint32_t pp;
  StateDict dict;
};

std::vector<StateDict> states_of(const Parallelism& layout, std::int32_t difference, bool is_flat) {
  std::vector<StateDict> all;
  for (std::uint32_t rank = 0; rank < layout.tp * layout.pp * layout.dp; ++rank) {
    all.push_back(RankState(layout, rank, difference, is_flat).dict);
  }
  return all;
}

/// The data of all tensors and factories of a dict, by path.
std::map<std::string, Array> data_of(const StateDict& dict, const std::string& path = "") {
  std::map<std::string, Array> found;
  if (const auto* children = dict.map_if()) {
    for (const auto& [key, child] : *children) {
      found.merge(data_of(child, path + (path.empty() ? "" : "/") + key));
    }
  } else if (const auto* elements = dict.list_if()) {
    for (std::size_t i = 0; i < elements->size(); ++i) {
      found.merge(data_of((*elements)[i], path + "/" + std::to_string(i)));
    }
  } else if (const auto* tensor = dict.leaf_if<ShardedTensor>()) {
    found.emplace(path, *tensor->data);
  } else if (const auto* factory = dict.leaf_if<ShardedTensorFactory>()) {
    found.emplace(path, *factory->data);
  }
  return found;
}

TEST(WholeStates, LoadInOtherLayouts) {
  const Parallelism layouts[] = {{2, 2, 2}, {1, 1, 1}, {3, 4, 1}, {1, 2, 4}};
  for (const bool was_flat : {false, true}) {
    for (const Parallelism& from : layouts) {
      const MemoryCheckpoint checkpoint(states_of(from, 0, was_flat));
      ASSERT_EQ(checkpoint.tensors.at("optimizer.state.exp_avg.layers.qkv"),
                counted({kLayers, 12, 5}, 10000));
      ASSERT_EQ(checkpoint.tensors.at("optimizer.state.exp_avg.layers.fc1"),
                counted({kLayers, 12, 5}, 11000));
      ASSERT_EQ(checkpoint.tensors.contains("optimizer.state.fp32_param.layers.fc1"), was_flat);
      for (const Parallelism& to : layouts) {
        for (const bool is_flat :
             {false, was_flat}) {  // Whole states do not have the main copy of the parameters.
          const std::vector<StateDict> right = states_of(to, 0, is_flat);
          const std::vector<StateDict> requested = states_of(to, 50000, is_flat);
          for (std::size_t rank = 0; rank < right.size(); ++rank) {
            const Tree loaded = checkpoint.load(requested[rank]);
            for (const auto& [path, data] : data_of(right[rank])) {
              ASSERT_EQ(loaded.get<Array>(path), data) << path << " on rank " << rank;
            }
            ASSERT_EQ(loaded.get<int>("step"), 7);
            ASSERT_EQ(loaded.get<double>("optimizer/param_groups/0/lr"), 0.5);
            ASSERT_EQ(loaded.at("optimizer/param_groups/0/params"), Tree::list({0, 1}));
          }
        }
      }
    }
  }
}

TEST(WholeStates, HaveTheNamesOfMegatronsOptimizers) {
  const MemoryCheckpoint checkpoint(states_of({2, 2, 1}, 0, true));

  std::vector<std::string> keys;
  for (const auto& [key, array] : checkpoint.tensors) {
    keys.push_back(key);
  }

  EXPECT_THAT(keys, ::testing::ElementsAre("layers.fc1", "layers.qkv", "optimizer.state.exp_avg.layers.fc1",
                                           "optimizer.state.exp_avg.layers.qkv",
                                           "optimizer.state.fp32_param.layers.fc1",
                                           "optimizer.state.fp32_param.layers.qkv"));
  EXPECT_EQ(checkpoint.objects.size(), kLayers + 4);
  EXPECT_EQ(checkpoint.objects.at("layers.extra/shard_2_4"), Tree(2));
  EXPECT_EQ(checkpoint.objects.at("rng/shard_1.0_2.2"), (Tree{{"pp", 1}, {"tp", 0}}));
}

}  // namespace
}  // namespace cairn::megatron
