// SPDX-License-Identifier: Apache-2.0
// Structs become trees, and trees structs again, when Boost.Describe knows their members.
#include <cstdint>
#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

// [include]
#include <cairn/cairn.hpp>
#include <cairn/handlers/describe.hpp>  // With BOOST_DESCRIBE_STRUCT.
// [/include]

#include "own_folder.hpp"

// [structs]
struct Layer {
  std::string activation;
  std::vector<float> weights;  // An array in the tree.
  bool operator==(const Layer&) const = default;
};
BOOST_DESCRIBE_STRUCT(Layer, (), (activation, weights))

struct Model {
  std::int64_t step = 0;
  std::vector<Layer> layers;            // A list of maps.
  std::optional<double> learning_rate;  // Null when it is empty.
  bool operator==(const Model&) const = default;
};
BOOST_DESCRIBE_STRUCT(Model, (), (step, layers, learning_rate))
// [/structs]

// [newer]
struct NewerModel {
  std::int64_t step = 0;
  std::vector<Layer> layers;
  double temperature = 0.7;
};
BOOST_DESCRIBE_STRUCT(NewerModel, (), (step, layers, temperature))
// [/newer]

int main() try {
  enter_own_folder("described_struct");
  // [use]
  const Model model = {7, {{"relu", {1, 2, 3}}, {"softmax", {0.5F, -0.5F}}}, 1e-3};
  cairn::save("run/7", cairn::to_tree(model));

  Model loaded;
  cairn::from_tree(cairn::load("run/7"), loaded);
  // [/use]

  // [into]
  Model resumed;
  cairn::load_into("run/7", resumed);  // Vectors get the stored length, and are read where they are.
  // [/into]

  // [members]
  NewerModel newer;
  const cairn::LoadResult result = cairn::load_into("run/7", newer, cairn::members_may_differ);
  for (const std::string& path : result.missing) {
    std::cout << path << " is not stored, and has kept its value\n";  // temperature
  }
  for (const std::string& path : result.unexpected) {
    std::cout << path << " is stored, and was left out\n";  // learning_rate
  }
  // [/members]
  const bool is_same = loaded == model && resumed == model && newer.layers == model.layers;
  std::cout << "the model is " << (is_same ? "as it was" : "another") << '\n';
  return is_same ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
