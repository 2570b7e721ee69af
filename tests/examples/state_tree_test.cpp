// SPDX-License-Identifier: Apache-2.0
#include "digits/state_tree.hpp"

#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "digits/classifier.hpp"
#include "digits/dataset.hpp"
#include "support/fails.hpp"

namespace digits {
namespace {

using cairn::Errc;
using cairn::testing::Fails;
using ::testing::HasSubstr;

TrainingState some_state() {
  TrainingState state = initial_state(Settings(), 100);
  state.step = 41;
  state.position_in_epoch = 96;
  return state;
}

TEST(StateTree, GivesBackTheWholeState) {
  const TrainingState state = some_state();

  EXPECT_EQ(from_tree(to_tree(state)), state);
}

TEST(StateTree, KeepsTheShapesOfTheWeights) {
  const TrainingState state = some_state();

  EXPECT_EQ(to_tree(state).at("weights/w1").as<cairn::Array>().shape(), (cairn::Shape{kPixels, kHidden}));
}

TEST(StateTreeReading, NamesWhatIsMissing) {
  const TrainingState state = some_state();
  cairn::Tree tree = to_tree(state);
  tree["adam"].as_map().erase("second");

  EXPECT_THAT([&] { static_cast<void>(from_tree(tree)); }, Fails(Errc::not_found, HasSubstr("adam/second")));
}

TEST(StateTreeReading, RefusesAGeneratorOfAnotherSize) {
  const TrainingState state = some_state();
  cairn::Tree tree = to_tree(state);
  tree["random"] = cairn::Array::zeros({3}, cairn::DType::uint64);

  EXPECT_THAT([&] { static_cast<void>(from_tree(tree)); }, Fails(Errc::shape_mismatch, HasSubstr("random")));
}

}  // namespace
}  // namespace digits
