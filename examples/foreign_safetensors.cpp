// SPDX-License-Identifier: Apache-2.0
// Loads what others wrote: a safetensors file, or a folder of them with model.safetensors.index.json.
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <cairn/cairn.hpp>
#include <cairn/handlers/describe.hpp>

// [load]
cairn::Tree load_as_float32(const std::filesystem::path& path) {
  cairn::AbstractTree wanted = cairn::metadata(path);  // Reads headers only.
  wanted.set_dtype(cairn::DType::float32);             // Floating tensors are cast while they are read.
  return cairn::load(path, wanted);
}
// [/load]

// [renames]
struct Linear {
  cairn::Array weight;
};
BOOST_DESCRIBE_STRUCT(Linear, (), (weight))

struct Block {
  Linear mlp;
};
BOOST_DESCRIBE_STRUCT(Block, (), (mlp))

struct Model {
  std::vector<Block> layers;
};
BOOST_DESCRIBE_STRUCT(Model, (), (layers))

/// Of "model.layers.0.mlp.weight", "model.layers.1.mlp.weight" and so on; what has no member is left out.
Model load_model(const std::filesystem::path& path) {
  cairn::TreeLoadOptions of_tree = cairn::TreeLoadOptions::renamed({{"model.**", "**"}}, ".");
  of_tree.members_may_differ = true;
  cairn::LoadOptions options;
  options.handler_options.set(of_tree);
  Model model;
  for (const std::string& path_of_member : cairn::load_into(path, model, options).missing) {
    std::cerr << path_of_member << " is not stored\n";
  }
  return model;
}
// [/renames]

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "Usage: foreign_safetensors FILE_OR_FOLDER\n";
    return 2;
  }
  const cairn::AbstractTree stored = cairn::metadata(argv[1]);
  for (const cairn::ArrayEntry& array : stored.arrays()) {
    std::cout << array.name << ' ' << array.dtype << ' ' << array.shape << '\n';
  }
  for (const Block& layer : load_model(argv[1]).layers) {
    std::cout << "a layer of " << layer.mlp.weight.shape() << '\n';
  }
  const cairn::Tree model = load_as_float32(argv[1]);
  bool all_converted = true;
  for (const auto& [name, tensor] : model.as_map()) {
    const cairn::DType dtype = tensor.as<cairn::Array>().dtype();
    all_converted = all_converted && (dtype == cairn::DType::float32 || !cairn::is_floating(dtype));
  }
  std::cout << model.size() << " tensors loaded" << (all_converted ? "" : ", some of which were not cast")
            << '\n';
  return all_converted ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
