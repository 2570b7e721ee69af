// SPDX-License-Identifier: Apache-2.0
// Asks a checkpoint what it holds. No array is read, however large the checkpoint is.
#include <exception>
#include <filesystem>
#include <iostream>

#include <cairn/cairn.hpp>
#include <cairn/handlers/json.hpp>
#include <nlohmann/json.hpp>

#include "own_folder.hpp"

void make_checkpoint() {
  const cairn::Tree model = {{"encoder", {{"w", cairn::Array::zeros({512, 256}, cairn::DType::bfloat16)}}},
                             {"decoder", {{"w", cairn::Array::zeros({256, 512}, cairn::DType::float32)}}},
                             {"step", 100}};
  const nlohmann::json config = {{"layers", 2}};
  cairn::SaveOptions options;
  options.custom_metadata = R"({"experiment": "a first try"})";
  cairn::save_checkpointables("run/100", {{"model", model}, {"config", config}}, options);
}

// [query]
void describe(const std::filesystem::path& path) {
  const cairn::CheckpointMetadata metadata = cairn::checkpointables_metadata(path);
  std::cout << path.string() << ", committed " << metadata.committed << ", " << metadata.custom_metadata
            << '\n';
  for (const auto& [name, item] : metadata) {
    std::cout << name << ": " << item.handler_id << ", " << item.bytes << " bytes\n";
    for (const cairn::ArrayEntry& array : cairn::arrays(item)) {
      std::cout << "  " << array.name << ' ' << array.dtype << ' ' << array.shape << '\n';
    }
  }
}
// [/query]

int main(int argc, char** argv) try {
  if (argc > 1) {
    describe(argv[1]);
    return 0;
  }
  enter_own_folder("metadata_query");
  make_checkpoint();
  describe("run/100");
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
