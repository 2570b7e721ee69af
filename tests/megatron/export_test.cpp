// SPDX-License-Identifier: Apache-2.0
// State dicts as files of other programs: of Cairn's checkpoints, and of Megatron-Core's folders.
#include "cairn/tools/export.hpp"

#include <filesystem>
#include <string>

#include "cairn/api/load.hpp"
#include "cairn/api/save.hpp"
#include "cairn/tools/torch_export.hpp"

#include "megatron/states_of_ranks.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace cairn::megatron {
namespace {

using testing::counted;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ExportOfStateDicts : public testing::StatesOfRanks {
 protected:
  /// Saves tensors, an object that holds an array, and common state.
  void save_state() const {
    const Tree random = {{"seed", 5}, {"words", Tree::list({"a", "b"})}, {"state", counted({3})}};
    const StateDict state = {{"w", ShardedTensor::from_rank_offsets("w", counted({4}))},
                             {"rng", ShardedObject{"rng_state", random}},
                             {"step", 7}};
    save(state, target(), {}, *context_);
  }
};

TEST_F(ExportOfStateDicts, AnArchiveHasObjectsAndCommonStateAsValues) {
  save_state();

  const ExportPlan plan = write_torch_archive(target(), directory_ / "out.pt");

  EXPECT_THAT(plan.left_out, IsEmpty());
  const Tree loaded = cairn::load(directory_ / "out.pt");
  ASSERT_EQ(loaded.as_map().size(), 3u);
  EXPECT_EQ(loaded.as_map().at("w"), Tree(counted({4})));
  const Tree& random = loaded.as_map().at("rng_state/shard_0_1");
  EXPECT_EQ(random.at("seed"), Tree(5));
  EXPECT_EQ(random.at("words"), Tree::list({"a", "b"}));
  EXPECT_EQ(random.at("state"), Tree(counted({3})));
  EXPECT_EQ(loaded.as_map().at("common_state/shard_0_1").at("step"), Tree(7));
}

TEST_F(ExportOfStateDicts, ADistributedCheckpointHasThemToo) {
  save_state();

  write_torch_distributed(target(), directory_ / "out");

  const Tree loaded = cairn::load(directory_ / "out");
  EXPECT_EQ(loaded.as_map().at("w"), Tree(counted({4})));
  EXPECT_EQ(loaded.as_map().at("rng_state/shard_0_1.seed"), Tree(5));
  EXPECT_EQ(loaded.as_map().at("rng_state/shard_0_1.state"), Tree(counted({3})));
  EXPECT_EQ(loaded.as_map().at("common_state/shard_0_1.step"), Tree(7));
}

TEST_F(ExportOfStateDicts, SafetensorsLeaveThemOutByName) {
  save_state();

  const ExportPlan plan = export_arrays(target(), directory_ / "out.safetensors");

  ASSERT_EQ(plan.arrays.size(), 1u);
  EXPECT_EQ(plan.arrays[0].path, "w");
  EXPECT_THAT(plan.left_out, ElementsAre("common_state~1shard_0_1", "rng_state~1shard_0_1"));
  ExportOptions options;
  options.only = {"rng_state~1shard_0_1"};
  EXPECT_THAT([&] { export_arrays(target(), directory_ / "other.safetensors", options); },
              testing::Fails(Errc::invalid_argument, HasSubstr("of the kind 'object'")));
}

TEST_F(ExportOfStateDicts, AnArchiveOfMegatronsFolderHasItsObjects) {
  const std::filesystem::path folder = testing::test_data() / "megatron/tp2_pp2";
  ExportOptions options;
  options.leave_out = true;  // Its common state has classes.
  TreeLoadOptions of_trees;
  of_trees.leave_out = true;
  cairn::LoadOptions how;
  how.handler_options.set(of_trees);

  const ExportPlan plan = write_torch_archive(folder, directory_ / "out.pt", options);

  EXPECT_THAT(plan.left_out, IsEmpty());
  const Tree exported = cairn::load(directory_ / "out.pt");
  const Tree stored = cairn::load(folder, how);
  for (const char* key : {"decoder.layers.qkv", "rng_state/shard_0.0_2.2"}) {
    EXPECT_EQ(exported.as_map().at(key), stored.as_map().at(key)) << key;
  }
}

TEST_F(ExportOfStateDicts, ATorchDistFolderLoadsAsTheCheckpointDoes) {
  save_state();
  const std::filesystem::path folder = directory_ / "iter_1";

  const ExportPlan plan = write_torch_dist(target(), folder);

  EXPECT_THAT(plan.left_out, IsEmpty());
  EXPECT_THAT(testing::list_tree(folder),
              ElementsAre(".metadata", "__0_0.distcp", "common.pt", "metadata.json"));
  EXPECT_EQ(backend_of(folder), (Backend{"torch_dist", 1}));
  const StateDict request = {{"w", ShardedTensor::from_rank_offsets("w", counted({4})).without_data()},
                             {"rng", ShardedObject{"rng_state"}}};
  EXPECT_EQ(load(request, folder, {}, *context_).state, load_alone(request).state);
  EXPECT_EQ(load_common_state_dict(folder, *context_), load_common_state_dict(target(), *context_));
}

TEST_F(ExportOfStateDicts, WhatIsNotAStateDictIsNotMadeATorchDistFolder) {
  cairn::save(target(), Tree{{"w", counted({4})}}, {}, *context_);

  EXPECT_THAT([&] { write_torch_dist(target(), directory_ / "iter_1"); },
              testing::Fails(Errc::invalid_argument, HasSubstr("--format dcp")));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "iter_1"));
}

}  // namespace
}  // namespace cairn::megatron
