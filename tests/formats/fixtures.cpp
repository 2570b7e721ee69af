// SPDX-License-Identifier: Apache-2.0
#include "formats/fixtures.hpp"

#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace cairn::formats {
namespace {

ExpectedTensor tensor_of(const nlohmann::json& json) {
  ExpectedTensor tensor;
  tensor.dtype = json.at("dtype").get<std::string>();
  tensor.shape = json.at("shape").get<std::vector<std::uint64_t>>();
  tensor.sha256 = json.at("sha256").get<std::string>();
  if (json.contains("data_offsets")) {
    tensor.data_offsets = json.at("data_offsets").get<std::vector<std::uint64_t>>();
  }
  return tensor;
}

}  // namespace

std::map<std::string, ExpectedFile> read_expected_files(const std::filesystem::path& json) {
  std::map<std::string, ExpectedFile> files;
  const nlohmann::json root = nlohmann::json::parse(testing::read_text(json));
  for (const auto& [name, facts] : root.at("files").items()) {
    ExpectedFile& file = files[name];
    file.size = facts.at("size").get<std::uint64_t>();
    file.header_length = facts.at("header_length").get<std::uint64_t>();
    if (!facts.at("metadata").is_null()) {
      file.metadata = facts.at("metadata").get<std::map<std::string, std::string>>();
    }
    for (const auto& [tensor, tensor_facts] : facts.at("tensors").items()) {
      file.tensors[tensor] = tensor_of(tensor_facts);
    }
  }
  return files;
}

std::map<std::string, ExpectedTensor> read_expected_tensors(const std::filesystem::path& json) {
  std::map<std::string, ExpectedTensor> tensors;
  const nlohmann::json root = nlohmann::json::parse(testing::read_text(json));
  for (const auto& [name, facts] : root.at("tensors").items()) {
    tensors[name] = tensor_of(facts);
  }
  return tensors;
}

std::filesystem::path data_path(std::string_view name) {
  return testing::test_data() / name;
}

std::string make_file(std::string_view json, std::size_t data_bytes) {
  const std::uint64_t length = json.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  file += json;
  file.resize(file.size() + data_bytes);
  return file;
}

SafetensorsHeader parse(std::string_view file) {
  return parse_safetensors(as_bytes(file), file.size(), "f");
}

}  // namespace cairn::formats
