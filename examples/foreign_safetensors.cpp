// SPDX-License-Identifier: Apache-2.0
// Loads what others wrote: a safetensors file, or a folder of them with model.safetensors.index.json.
#include <exception>
#include <filesystem>
#include <iostream>

#include <cairn/cairn.hpp>

// [load]
cairn::Tree load_as_float32(const std::filesystem::path& path) {
  cairn::AbstractTree wanted = cairn::metadata(path);  // Reads headers only.
  wanted.set_dtype(cairn::DType::float32);             // Floating tensors are cast while they are read.
  return cairn::load(path, wanted);
}
// [/load]

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "Usage: foreign_safetensors FILE_OR_FOLDER\n";
    return 2;
  }
  const cairn::AbstractTree stored = cairn::metadata(argv[1]);
  for (const cairn::ArrayEntry& array : stored.arrays()) {
    std::cout << array.name << ' ' << array.dtype << ' ' << array.shape << '\n';
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
