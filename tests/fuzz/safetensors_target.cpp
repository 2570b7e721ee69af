// SPDX-License-Identifier: Apache-2.0
// The input is a safetensors file. An Error, or a header that keeps its invariants, and that written anew
// says the same. Data need not be there: the file counts as being as large as its header asks for, too.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "formats/internal/safetensors.hpp"
#include "formats/internal/safetensors_layout.hpp"
#include "fuzz/data_size.hpp"
#include "fuzz/fuzzing.hpp"

namespace {

using cairn::Errc;
using cairn::formats::SafetensorsHeader;
using cairn::formats::SafetensorsTensor;
using cairn::fuzz::require;

constexpr std::uint64_t kLengthBytes = cairn::formats::kSafetensorsLengthBytes;

void check_tensors(const SafetensorsHeader& header, std::uint64_t file_size) {
  std::set<std::string_view> names;
  std::uint64_t end = header.data_begin;
  for (const SafetensorsTensor& tensor : header.tensors) {
    require(names.insert(tensor.name).second, "names of tensors are unique");
    require(tensor.begin == end && tensor.end >= tensor.begin, "tensors are sorted and touch each other");
    require(byte_count(tensor.dtype, tensor.shape) == tensor.end - tensor.begin,
            "a tensor has its shape's bytes");
    end = tensor.end;
  }
  require(end == file_size, "tensors fill the file");
}

void check_metadata(const SafetensorsHeader& header) {
  for (std::size_t i = 0; i < header.metadata.size(); ++i) {
    require(i == 0 || header.metadata[i - 1].first < header.metadata[i].first,
            "metadata is sorted and unique");
    const std::string* found = header.find_metadata(header.metadata[i].first);
    require(found == &header.metadata[i].second, "metadata is found by its key");
  }
}

std::vector<SafetensorsTensor> sorted_by_name(std::vector<SafetensorsTensor> tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const SafetensorsTensor& a, const SafetensorsTensor& b) { return a.name < b.name; });
  return tensors;
}

void check_written_anew(const SafetensorsHeader& header) {
  std::vector<cairn::formats::TensorSpec> specs;
  std::vector<cairn::formats::TensorMeasure> measures;
  for (const SafetensorsTensor& tensor : header.tensors) {
    specs.push_back({tensor.name, tensor.dtype, tensor.shape});
    measures.push_back(cairn::formats::measure_tensor(specs.back()));
  }
  // With padding between tensors a file can exceed 2^64 bytes though they do not.
  const auto layouts = cairn::fuzz::attempt({Errc::invalid_argument},
                                            [&] { return cairn::formats::plan_safetensors(measures); });
  if (!layouts || layouts->size() != 1) {
    return;
  }
  const std::string written(cairn::formats::safetensors_header(specs, layouts->front()));
  const SafetensorsHeader again = cairn::formats::parse_safetensors(cairn::fuzz::as_bytes(written),
                                                                    layouts->front().file_size, "written");
  const auto before = sorted_by_name(header.tensors);
  const auto after = sorted_by_name(again.tensors);
  require(std::equal(before.begin(), before.end(), after.begin(), after.end(),
                     [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
                       return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape;
                     }),
          "a header written anew has the same tensors");
}

void read(std::string_view prefix, std::uint64_t file_size) {
  const std::size_t most_bytes = 65536 + 48 * prefix.size();
  const auto header = [&] {
    const cairn::fuzz::MemoryBound bound(most_bytes);
    return cairn::fuzz::attempt({Errc::malformed_metadata}, [&] {
      const auto bytes = cairn::fuzz::as_bytes(prefix);
      const std::uint64_t needed = cairn::formats::safetensors_prefix_size(bytes, file_size, "input");
      require(needed <= file_size, "a header lies inside its file");
      return cairn::formats::parse_safetensors(bytes.first(std::min(needed, std::uint64_t{bytes.size()})),
                                               file_size, "input");
    });
  }();
  if (header) {
    check_tensors(*header, file_size);
    check_metadata(*header);
    check_written_anew(*header);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  read(file, size);
  // Mutations break the length first of all; with the one that is right they reach the tensors.
  if (size > kLengthBytes) {
    std::string mended(file);
    const std::uint64_t header_bytes = size - kLengthBytes;
    for (std::size_t i = 0; i < kLengthBytes; ++i) {
      mended[i] = static_cast<char>(header_bytes >> (8 * i));
    }
    read(mended, size + cairn::fuzz::wanted_data_bytes(file));
  }
  return 0;
}
