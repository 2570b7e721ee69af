// SPDX-License-Identifier: Apache-2.0
// Megatron-Core's own checkpoints (tests/data/megatron) through state dicts.
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "megatron/states_of_ranks.hpp"
#include "support/test_data.hpp"

namespace cairn::megatron {
namespace {

using ::testing::Contains;
using testing::cut;
using testing::flat;
using ::testing::HasSubstr;

using Tensors = std::map<std::string, Array>;

std::filesystem::path newer() {
  return testing::test_data() / "megatron/tp2_pp2";
}

std::filesystem::path older() {
  return testing::test_data() / "megatron/flat_tp2_dp3";
}

class TorchDist : public testing::StatesOfRanks {
 protected:
  /// The whole tensors, as the layout reads them without this module.
  [[nodiscard]] Tensors whole(const std::filesystem::path& path) const {
    Tensors tensors;
    TreeLoadOptions of_trees;
    of_trees.leave_out = true;
    cairn::LoadOptions options;
    options.handler_options.set(of_trees);
    const Tree tree = cairn::load(path, options, *context_);
    for (const auto& [key, value] : tree.as_map()) {
      if (const Array* array = value.array_if()) {
        tensors.emplace(key, *array);
      }
    }
    return tensors;
  }
};

/// Parts of a tensor that TP cuts along an axis and DP flattened.
ShardedTensor flat_part(const Tensors& tensors, const std::string& key, std::size_t axis,
                        std::uint32_t tp_rank, std::uint32_t tp, std::uint32_t dp_rank, std::uint32_t dp,
                        bool has_data) {
  const Array& all = tensors.at(key);
  Shape offsets(all.shape().size(), 0);
  Shape extents = all.shape();
  extents[axis] /= tp;
  offsets[axis] = tp_rank * extents[axis];
  const Array local = flat(cut(all, Box(offsets, extents)));
  const std::uint64_t each = (local.element_count() + dp - 1) / dp;
  const FlatRange range{std::min(dp_rank * each, local.element_count()),
                        std::min((dp_rank + 1) * each, local.element_count())};
  ShardedTensor part = ShardedTensor::from_rank_offsets_flat(
      key, cut(local, Box({range.begin}, {range.size()})), extents, {{axis, tp_rank, tp}}, range);
  return has_data ? part : part.without_data();
}

StateDict flat_state(const Tensors& tensors, std::uint32_t rank, std::uint32_t tp, std::uint32_t dp,
                     bool has_data) {
  StateDict state;
  state["guide"] =
      flat_part(tensors, "optimizer.state.exp_avg.guide", 1, rank % tp, tp, rank / tp, dp, has_data);
  state["weight"] =
      flat_part(tensors, "optimizer.state.exp_avg.weight", 1, rank % tp, tp, rank / tp, dp, has_data);
  return state;
}

TEST_F(TorchDist, IsKnownByItsFiles) {
  EXPECT_EQ(backend_of(newer()), (Backend{"torch_dist", 1}));
  EXPECT_EQ(backend_of(older()), (Backend{"torch_dist", 1}));
  EXPECT_EQ(backend_of(testing::test_data() / "torch/dcp"), (Backend{"torch_dist", 1}));
  EXPECT_EQ(backend_of(testing::test_data() / "torch_more"), std::nullopt);
}

TEST_F(TorchDist, HasItsTensorsByTheirKeys) {
  for (const auto& path : {newer(), older()}) {
    EXPECT_EQ(load_plain_tensors(path, *context_), whole(path));
  }
  const StateDict metadata = load_sharded_metadata(newer(), *context_);
  EXPECT_THAT(*metadata.map_if(), Contains(::testing::Key("rng_state/shard_1.0_2.2")));
}

TEST_F(TorchDist, HasCommonStateOfBothForms) {
  EXPECT_EQ(load_common_state_dict(older(), *context_).at("step").as<int>(), 17);

  const Tree common = load_common_state_dict(newer(), *context_);

  EXPECT_EQ(common.at("iteration").as<int>(), 1200);
  EXPECT_EQ(common.at("opt_param_scheduler/num_steps").as<int>(), 4800);
  EXPECT_EQ(load_content_metadata(newer(), *context_)->at("distrib_optim_sharding_type").as<std::string>(),
            "fully_reshardable");
}

TEST_F(TorchDist, IsLoadedFlattenedByOtherNumbersOfRanks) {
  const Tensors tensors = whole(older());
  for (const auto& [tp_ranks, dp_ranks] :
       std::vector<std::pair<std::uint32_t, std::uint32_t>>{{2, 3}, {1, 2}, {3, 1}, {1, 1}, {6, 1}}) {
    const std::uint32_t tp = tp_ranks;
    const std::uint32_t dp = dp_ranks;
    const std::vector<LoadEnd> ends = load_on(
        [&](std::uint32_t rank) { return flat_state(tensors, rank, tp, dp, false); }, tp * dp, older());
    for (std::uint32_t rank = 0; rank < tp * dp; ++rank) {
      EXPECT_EQ(ends[rank].text, "");
      const StateDict expected = flat_state(tensors, rank, tp, dp, true);
      for (const char* key : {"guide", "weight"}) {
        if (const auto& data = expected[key].leaf_if<ShardedTensor>()->data; data->element_count() > 0) {
          EXPECT_EQ(ends[rank].loaded.state.at(key).as<Array>(), *data) << key;
        }
      }
      EXPECT_EQ(ends[rank].loaded.state.at("step").as<int>(), 17);
    }
  }
}

TEST_F(TorchDist, IsTheSameSavedByCairn) {
  const Tensors tensors = whole(older());
  expect_saved([&](std::uint32_t rank) { return flat_state(tensors, rank, 2, 3, true); }, 6);

  for (const auto& path : {older(), target()}) {
    const StateDict request = flat_state(tensors, 0, 1, 1, false);
    const Tree state = load(request, path, {}, *context_).state;
    EXPECT_EQ(flat(state.at("weight").as<Array>()), flat(tensors.at("optimizer.state.exp_avg.weight")));
  }
}

TEST_F(TorchDist, IsNotLoadedUnderOtherNames) {
  StateDictLoadOptions options;
  options.load.handler_options.set(TreeLoadOptions::renamed({}, "."));

  EXPECT_THAT(
      [&] {
        static_cast<void>(load(flat_state(whole(older()), 0, 1, 1, false), older(), options, *context_));
      },
      Fails(Errc::invalid_argument, HasSubstr("separator are for trees")));
}

TEST_F(TorchDist, HasObjects) {
  const std::vector<LoadEnd> ends = load_on(
      [](std::uint32_t rank) -> StateDict {
        return {{"rng", ShardedObject{"rng_state", std::nullopt, {2, 2}, {rank / 2, rank % 2}}}};
      },
      4, newer());

  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(ends[rank].text, "");
    const Array states = ends[rank].loaded.state.at("rng/torch_rng_state").as<Array>();
    EXPECT_EQ(states.data<const std::uint8_t>()[0], rank / 2 * 10 + rank % 2);
  }
}

TEST_F(TorchDist, IsNotChanged) {
  EXPECT_THAT([&] { remove_sharded_tensors(older(), "optimizer"); },
              testing::Fails(Errc::invalid_argument, HasSubstr("load it, and save it")));
}

TEST_F(TorchDist, NamesFormsThatNobodyLoads) {
  std::filesystem::create_directories(target());
  testing::write_text(target() / "metadata.json",
                      R"({"sharded_backend": "zarr", "sharded_backend_version": 1})");
  EXPECT_EQ(backend_of(target()), (Backend{"zarr", 1}));
  EXPECT_THAT(
      [&] { static_cast<void>(load_alone(StateDict())); },
      testing::Fails(Errc::invalid_argument,
                     HasSubstr("no strategy loads backend 'zarr' 1; there are: cairn 1, torch_dist 1")));
  for (const LoadEnd& end : load_on([](std::uint32_t) { return StateDict(); }, 2)) {
    EXPECT_THAT(end.text, HasSubstr("no strategy loads backend 'zarr' 1"));
  }
}

}  // namespace
}  // namespace cairn::megatron
