// SPDX-License-Identifier: Apache-2.0
#include "sharded/state_tree.hpp"

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include <cairn/sharding/shards.hpp>

#include "digits/state_tree.hpp"
#include "sharded/layers.hpp"

namespace sharded {
namespace {

cairn::Tree to_tree(const digits::Settings& settings) {
  return {{"learning_rate", settings.learning_rate},
          {"batch_size", settings.batch_size},
          {"seed", settings.seed}};
}

/// Returns what the rank holds of an array of `shape`: `values`, of the one box that the sharding gives it.
cairn::ShardedArray held(const std::vector<float>& values, const cairn::Shape& shape,
                         const cairn::Sharding& sharding, std::uint32_t rank) {
  const cairn::Shape extents = sharding.boxes(rank, shape).at(0).box.extents();
  const cairn::ArrayView local(values.data(), extents, cairn::DType::float32);
  return cairn::shard(sharding, rank, shape, cairn::Array::borrow(local));
}

cairn::Tree to_tree(const digits::Parameters& parameters, const cairn::Sharding& sharding,
                    std::uint32_t rank) {
  cairn::Tree tree;
  for (const Layer& layer : layers()) {
    tree[layer.name] = held(parameters.*layer.values, layer.shape, sharding, rank);
  }
  return tree;
}

}  // namespace

cairn::Tree to_tree(const RankState& state, const digits::Settings& settings, const Job& job) {
  const cairn::Sharding rows = rows_of(job.size());
  const cairn::Sharding copies = cairn::Sharding::replicated(job.size());
  return {{"weights", to_tree(state.weights, copies, job.rank())},
          {"adam",
           {{"first", to_tree(state.first_moment, rows, job.rank())},
            {"second", to_tree(state.second_moment, rows, job.rank())}}},
          {"step", state.step},
          {"random", state.random},
          {"order", state.order},
          {"position_in_epoch", state.position_in_epoch},
          {"settings", to_tree(settings)}};
}

cairn::AbstractTree wanted_tree(cairn::AbstractTree stored, const Job& job) {
  const cairn::Sharding rows = rows_of(job.size());
  for (const auto* moment : {"first", "second"}) {
    for (const Layer& layer : layers()) {
      const cairn::AbstractArray array(layer.shape, cairn::DType::float32);
      stored["adam"][moment][layer.name] = cairn::wanted(array, rows, job.rank());
    }
  }
  return stored;
}

RankState from_tree(cairn::Tree tree, const digits::Settings& settings) {
  if (tree.at("settings") != to_tree(settings)) {
    throw std::runtime_error("the checkpoint was made with other settings");
  }
  for (const auto* moment : {"first", "second"}) {
    for (const Layer& layer : layers()) {
      cairn::Tree& rows = tree["adam"][moment][layer.name];
      rows = cairn::Array(rows.as<cairn::ShardedArray>().shards().at(0).data);
    }
  }
  return digits::from_tree(tree);
}

}  // namespace sharded
