// SPDX-License-Identifier: Apache-2.0
// State dicts in what else saves: the steps of a training, and checkpoints that are put together part by part.
#include <string>

#include <fmt/format.h>

#include "cairn/training/checkpointer.hpp"
#include "cairn/training/partial_save.hpp"

#include "megatron/states_of_ranks.hpp"

namespace cairn::megatron {
namespace {

using testing::counted;

class StatesOfTrainings : public testing::StatesOfRanks {
 protected:
  static StateDict layer(int number) {
    const std::string key = fmt::format("layers.{}", number);
    return {{"w", ShardedTensor::from_rank_offsets(key, counted({3}, number))},
            {"args", {{"layers", 2}, {fmt::format("seed{}", number), number}}}};
  }
};

TEST_F(StatesOfTrainings, AreStepsOfACheckpointer) {
  CheckpointerOptions options;
  options.save = save_when::every_steps(1);
  Checkpointer run(directory_ / "run", options, *context_);
  StepOptions how;
  how.save.registry.add<StateDictHandler>();
  Array memory = counted({3});
  const StateDict state = {{"w", ShardedTensor::from_rank_offsets("w", memory)}, {"tree", {{"step", 1}}}};
  run.save(1, {{"state", state}}, how);
  memory.data<std::int32_t>()[0] = -1;
  run.close();

  ResumeOptions resuming;
  resuming.load.registry.add<StateDictHandler>();
  const auto resumed = run.resume({{"state", AbstractStateDict(state)}}, resuming);

  ASSERT_TRUE(resumed);
  EXPECT_EQ(memory, counted({3})) << "it was loaded into the memory of the request";
  EXPECT_EQ(load_common_state_dict(directory_ / "run" / "1", *context_), (Tree{{"tree", {{"step", 1}}}}));
}

TEST_F(StatesOfTrainings, ArePutTogetherOfParts) {
  PartialSave parts(target(), {}, *context_);
  SaveOptions options;
  options.registry.add<StateDictHandler>();
  for (const int number : {0, 1}) {
    const StateDict dict = layer(number);
    parts.add({{"state", dict}}, options);
  }
  const StateDict other = {{"args", {{"layers", 3}}}};
  EXPECT_THAT(
      [&] {
        parts.add({{"state", other}}, options);
      },
      testing::Fails(Errc::already_exists, ::testing::HasSubstr("another plain value 'args/layers'")));
  parts.finalize();

  EXPECT_TRUE(verify(target(), {}, *context_).is_sound());
  EXPECT_THAT(load_plain_tensors(target(), *context_), ::testing::SizeIs(2));
  EXPECT_EQ(load_common_state_dict(target(), *context_),
            (Tree{{"args", {{"layers", 2}, {"seed0", 0}, {"seed1", 1}}}}));
  EXPECT_EQ(cairn::load(target(), {}, *context_).at("layers.1").as<Array>(), counted({3}, 1));
}

}  // namespace
}  // namespace cairn::megatron
