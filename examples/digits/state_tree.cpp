// SPDX-License-Identifier: Apache-2.0
#include "digits/state_tree.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <cairn/base/error.hpp>

#include "digits/dataset.hpp"

namespace digits {
namespace {

cairn::ArrayView matrix(const std::vector<float>& values, std::size_t rows, std::size_t columns) {
  return {values.data(), {rows, columns}, cairn::DType::float32};
}

cairn::Tree to_tree(const Parameters& parameters) {
  return {{"w1", matrix(parameters.w1, kPixels, kHidden)},
          {"b1", parameters.b1},
          {"w2", matrix(parameters.w2, kHidden, kClasses)},
          {"b2", parameters.b2}};
}

Parameters parameters_from(const cairn::Tree& tree, const std::string& path) {
  const auto read = [&](const char* name) { return tree.get<std::vector<float>>(path + "/" + name); };
  return {read("w1"), read("b1"), read("w2"), read("b2")};
}

RandomState random_from(const cairn::Tree& tree) {
  const auto words = tree.get<std::vector<std::uint64_t>>("random");
  RandomState random;
  if (words.size() != random.size()) {
    throw cairn::Error(cairn::Errc::shape_mismatch, "'random' does not have four words");
  }
  std::copy(words.begin(), words.end(), random.begin());
  return random;
}

}  // namespace

cairn::Tree to_tree(const TrainingState& state) {
  return {{"weights", to_tree(state.weights)},
          {"adam", {{"first", to_tree(state.first_moment)}, {"second", to_tree(state.second_moment)}}},
          {"step", state.step},
          {"random", state.random},
          {"order", state.order},
          {"position_in_epoch", state.position_in_epoch}};
}

TrainingState from_tree(const cairn::Tree& tree) {
  TrainingState state;
  state.weights = parameters_from(tree, "weights");
  state.first_moment = parameters_from(tree, "adam/first");
  state.second_moment = parameters_from(tree, "adam/second");
  state.step = tree.get<std::int64_t>("step");
  state.random = random_from(tree);
  state.order = tree.get<std::vector<std::uint32_t>>("order");
  state.position_in_epoch = tree.get<std::uint64_t>("position_in_epoch");
  return state;
}

}  // namespace digits
