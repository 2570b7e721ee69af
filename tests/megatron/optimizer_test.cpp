// SPDX-License-Identifier: Apache-2.0
#include "cairn/megatron/optimizer.hpp"

#include <gmock/gmock.h>

#include "memory_checkpoint.hpp"
#include "support/fails.hpp"

namespace cairn::megatron {
namespace {

using testing::counted;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A linear layer, whose second rank of two this is, and a gated unit.
struct Model {
  Array weight = counted({2, 3});
  Array bias = counted({2});
  Array fc1 = counted({4, 3});
  StateDict dict = {{"layer",
                     {{"weight", ShardedTensor::from_rank_offsets("layer.weight", weight, {{0, 1, 2}})},
                      {"bias", ShardedTensor::from_rank_offsets("layer.bias", bias, {{0, 1, 2}})}}},
                    {"fc1", swiglu_factory("fc1", fc1, 0, {{0, 1, 2}})}};
  std::vector<Array> params = {weight, bias, fc1};

  [[nodiscard]] ParamMap map() const { return param_id_to_sharded_param(dict, params); }

  [[nodiscard]] StateDict optimizer() const {
    StateDict made = {{"param_groups", StateDict::list({{{"lr", 0.1}, {"params", Tree::list({0, 1, 2})}}})}};
    for (std::size_t id = 0; id < params.size(); ++id) {
      made["state"][std::to_string(id)] = {
          {"exp_avg", params[id].clone()}, {"exp_avg_sq", params[id].clone()}, {"step", 10}};
    }
    return made;
  }
};

std::string key_of(const ShardedParam& param) {
  return std::visit([](const auto& one) { return one.key; }, param);
}

TEST(ParamIdToShardedParam, FindsParametersByTheirMemory) {
  const Model model;

  const ParamMap map = model.map();

  ASSERT_EQ(map.size(), 3U);
  EXPECT_EQ(key_of(map.at(0)), "layer.weight");
  EXPECT_EQ(key_of(map.at(1)), "layer.bias");
  EXPECT_EQ(key_of(map.at(2)), "fc1");
  EXPECT_TRUE(std::holds_alternative<ShardedTensorFactory>(map.at(2)));
}

TEST(ParamIdToShardedParam, LeavesOutOthersAndTakesTheFirstThatFits) {
  const Model model;
  StateDict dict = model.dict;
  dict["zzz"] = ShardedTensor::from_rank_offsets("second", model.weight);
  const std::vector<Array> params = {counted({2, 3}), model.weight, model.weight.reshaped({3, 2})};

  const ParamMap map = param_id_to_sharded_param(dict, params);

  ASSERT_EQ(map.size(), 1U);
  EXPECT_EQ(key_of(map.at(1)), "layer.weight");
}

TEST(ParamIdToShardedParam, RefusesParametersOfAnotherModel) {
  const Model model;
  const std::vector<Array> copies = {model.weight.clone()};

  EXPECT_THAT([&] { return param_id_to_sharded_param(model.dict, copies); },
              Fails(Errc::invalid_argument, HasSubstr("must be the parameters' own memory, not copies")));
  EXPECT_THAT(param_id_to_sharded_param(model.dict, {}), IsEmpty());
}

TEST(MakeShardedOptimizerTensor, ReplacesKeyDataAndDType) {
  const Model model;
  const Array state(Shape{2, 3}, DType::float32);

  const ShardedParam tensor =
      make_sharded_optimizer_tensor(model.map().at(0), state, "optimizer.state.exp_avg");

  const auto& made = std::get<ShardedTensor>(tensor);
  EXPECT_EQ(made.key, "optimizer.state.exp_avg.layer.weight");
  EXPECT_EQ(made.dtype, DType::float32);
  EXPECT_EQ(made.data->view().data(), state.view().data());
  EXPECT_EQ(made.box(), Box({2, 0}, {2, 3}));
  EXPECT_NO_THROW(made.validate());
}

TEST(MakeShardedOptimizerTensor, RefusesAStateOfAnotherShape) {
  const Model model;

  EXPECT_THAT([&] { return make_sharded_optimizer_tensor(model.map().at(0), counted({6}), "p"); },
              Fails(Errc::shape_mismatch,
                    HasSubstr("'p.layer.weight': a state of shape [6] of a parameter of shape [2, 3]")));
  EXPECT_THAT(
      [&] {
        return make_sharded_optimizer_tensor(model.map().at(2), counted({3, 4}), "p");
      },
      Fails(Errc::shape_mismatch, HasSubstr("'p.fc1'")));
}

TEST(OptimStateToShardingState, NamesStatesAsMegatronDoes) {
  const Model model;
  StateDict optimizer = model.optimizer();

  optim_state_to_sharding_state(optimizer, model.map(), {"step"});

  std::vector<std::string> keys;
  for (const auto& [id, states] : *optimizer["state"].map_if()) {
    for (const auto& [state_name, state] : *states.map_if()) {
      if (const auto* tensor = state.leaf_if<ShardedTensor>()) {
        keys.push_back(tensor->key);
      } else if (const auto* factory = state.leaf_if<ShardedTensorFactory>()) {
        keys.push_back(factory->key);
      } else {
        EXPECT_EQ(state_name, "step");
      }
    }
  }
  EXPECT_THAT(keys,
              ElementsAre("optimizer.state.exp_avg.layer.weight", "optimizer.state.exp_avg_sq.layer.weight",
                          "optimizer.state.exp_avg.layer.bias", "optimizer.state.exp_avg_sq.layer.bias",
                          "optimizer.state.exp_avg.fc1", "optimizer.state.exp_avg_sq.fc1"));
  EXPECT_EQ(optimizer.at("state/1/step").leaf_if<Tree>()->as<int>(), 10);
  EXPECT_EQ(optimizer.at("param_groups/0/params").leaf_if<LocalNonpersistentObject>()->value,
            Tree::list({0, 1, 2}));
  EXPECT_EQ(optimizer.at("param_groups/0/lr").leaf_if<Tree>()->as<double>(), 0.1);
}

TEST(OptimStateToShardingState, ChangesNothingWhenAParameterIsUnknown) {
  const Model model;
  StateDict optimizer = model.optimizer();
  ParamMap map = model.map();
  map.erase(2);

  EXPECT_THAT([&] { optim_state_to_sharding_state(optimizer, map, {"step"}); },
              Fails(Errc::invalid_argument,
                    HasSubstr("parameter 2 of the optimizer is not among the sharded parameters")));
  EXPECT_TRUE(optimizer.at("state/0/exp_avg").leaf_if<Tree>());
}

TEST(OptimStateToShardingState, RefusesAStateThatIsNotAnArray) {
  const Model model;
  StateDict optimizer = model.optimizer();
  StateDict flat = {{"state", {{"0", 5}}}};

  EXPECT_THAT([&] { optim_state_to_sharding_state(optimizer, model.map()); },
              Fails(Errc::type_mismatch,
                    HasSubstr("state 'step' of parameter 0 is a value of kind integer, not an array")));
  EXPECT_THAT([&] { optim_state_to_sharding_state(flat, model.map()); }, Fails(Errc::type_mismatch));
}

TEST(OptimStateToShardingState, TakesAnOptimizerWithoutStates) {
  StateDict optimizer = {{"lr", 0.1}};

  optim_state_to_sharding_state(optimizer, {});

  EXPECT_EQ(optimizer.tree(), (Tree{{"lr", 0.1}}));
}

}  // namespace
}  // namespace cairn::megatron
