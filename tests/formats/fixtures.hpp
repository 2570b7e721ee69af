// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/internal/safetensors.hpp"
#include "support/sha256.hpp"

namespace cairn::formats {

/// What an `expected.json` says of one tensor; the hash is over its little-endian row-major bytes.
struct ExpectedTensor {
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> data_offsets;
  std::string sha256;
};

struct ExpectedFile {
  std::uint64_t size = 0;
  std::uint64_t header_length = 0;
  std::map<std::string, std::string> metadata;
  std::map<std::string, ExpectedTensor> tensors;
};

/// The facts of a folder of fixtures, by file name.
std::map<std::string, ExpectedFile> read_expected_files(const std::filesystem::path& json);

/// The whole tensors of `dcp_hf/expected.json`, by name; data_offsets are empty.
std::map<std::string, ExpectedTensor> read_expected_tensors(const std::filesystem::path& json);

using testing::sha256;

std::filesystem::path data_path(std::string_view name);

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// A safetensors file: the length of `json`, `json`, and `data_bytes` zeros.
std::string make_file(std::string_view json, std::size_t data_bytes);

/// Parses the bytes of a whole file called "f".
SafetensorsHeader parse(std::string_view file);

}  // namespace cairn::formats
