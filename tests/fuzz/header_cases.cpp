// SPDX-License-Identifier: Apache-2.0
// Writes safetensors files, valid ones and mutated ones, and what Cairn reads in them, for differential.py.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cairn/base/error.hpp"

#include "formats/internal/safetensors.hpp"
#include "fuzz/data_size.hpp"
#include "fuzz/mutator.hpp"

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLengthBytes = cairn::formats::kSafetensorsLengthBytes;
constexpr std::uint64_t kMostDataBytes = 4096;

std::string number_bytes(std::uint64_t number) {
  std::string bytes(sizeof number, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(number >> (8 * i));
  }
  return bytes;
}

/// The file with the length that its header has, and as many bytes of data as that asks for.
std::string mended(const std::string& file) {
  // The header ends where its braces do; what follows was data.
  const std::size_t end = file.rfind('}');
  const std::string header = end == std::string::npos || end < kLengthBytes
                                 ? file.substr(std::min(file.size(), kLengthBytes))
                                 : file.substr(kLengthBytes, end + 1 - kLengthBytes);
  std::string whole = number_bytes(header.size()) + header;
  const std::uint64_t data_bytes = std::min(cairn::fuzz::wanted_data_bytes(header), kMostDataBytes);
  for (std::uint64_t i = 0; i < data_bytes; ++i) {
    whole += static_cast<char>(i * 7);
  }
  return whole;
}

nlohmann::json verdict(const std::string& file) {
  const auto bytes = std::as_bytes(std::span(file));
  try {
    const auto header = cairn::formats::parse_safetensors(bytes, file.size(), "file");
    nlohmann::json tensors = nlohmann::json::object();
    for (const cairn::formats::SafetensorsTensor& tensor : header.tensors) {
      const std::vector<std::uint64_t> shape(tensor.shape.begin(), tensor.shape.end());
      tensors[tensor.name] = {cairn::name(tensor.dtype), shape, tensor.begin, tensor.end};
    }
    nlohmann::json metadata = nlohmann::json::object();
    for (const auto& [key, value] : header.metadata) {
      metadata[key] = value;
    }
    return {{"tensors", tensors}, {"metadata", metadata}};
  } catch (const cairn::Error& error) {
    return {{"refused", error.what()}};
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: cairn_header_cases CORPUS MUTATIONS OUT\n", stderr);
    return 2;
  }
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(argv[1])) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> files;
  for (const fs::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  cairn::fuzz::Mutator mutator(1, files,
                               {"\"dtype\":", "\"__metadata__\":{}", "[]", "null", "\\u0061", "F16"});
  for (std::uint64_t left = std::strtoull(argv[2], nullptr, 10); left > 0; --left) {
    const std::string mutated = mutator.next();
    files.push_back(left % 8 == 0 ? mutated : mended(mutated));
  }
  const fs::path out = argv[3];
  fs::create_directories(out);
  std::ofstream cases(out / "cases", std::ios::binary);
  std::ofstream verdicts(out / "verdicts");
  for (const std::string& file : files) {
    cases << number_bytes(file.size()) << file;
    verdicts << verdict(file).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) << '\n';
  }
  return cases.flush() && verdicts.flush() ? 0 : 1;
}
