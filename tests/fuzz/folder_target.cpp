// SPDX-License-Identifier: Apache-2.0
// The input is a folder of safetensors files, one header a line; the last line, when it begins with '#', is
// its index. An Error, or tensors whose slices tile them and lie inside their files.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "array/internal/cover.hpp"
#include "formats/internal/hugging_face.hpp"
#include "formats/internal/safetensors.hpp"
#include "fuzz/data_size.hpp"
#include "fuzz/fuzzing.hpp"

namespace {

using cairn::Errc;
using cairn::Shape;
using cairn::formats::FolderFile;
using cairn::formats::ForeignArray;
using cairn::formats::SafetensorsHeader;
using cairn::fuzz::attempt;
using cairn::fuzz::require;

/// The header of a file whose data are exactly what its tensors ask for.
std::optional<SafetensorsHeader> read_header(std::string_view text) {
  std::string prefix(8, '\0');
  for (std::size_t i = 0; i < prefix.size(); ++i) {
    prefix[i] = static_cast<char>(std::uint64_t{text.size()} >> (8 * i));
  }
  prefix += text;
  return attempt({Errc::malformed_metadata}, [&] {
    return cairn::formats::parse_safetensors(cairn::fuzz::as_bytes(prefix),
                                             prefix.size() + cairn::fuzz::wanted_data_bytes(text), "input");
  });
}

void check(const ForeignArray& tensor, const std::vector<FolderFile>& files) {
  std::vector<cairn::Box> boxes;
  for (const cairn::formats::ForeignSlice& slice : tensor.slices) {
    require(slice.range.file < files.size() && slice.range.begin <= slice.range.end,
            "a slice lies in a file of the folder");
    const auto& stored = files[slice.range.file].header.tensors;
    require(std::any_of(stored.begin(), stored.end(),
                        [&](const auto& part) {
                          return part.name == tensor.path && part.begin == slice.range.begin &&
                                 part.end == slice.range.end && part.dtype == tensor.dtype &&
                                 part.shape == slice.box.extents();
                        }),
            "a slice is a tensor of its file");
    boxes.push_back(slice.box);
  }
  require(!boxes.empty(), "a tensor has a slice");
  cairn::check_cover(tensor.path, cairn::Box::whole(tensor.shape), boxes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cairn::fuzz::Input input(data, size);
  std::vector<FolderFile> files;
  std::optional<cairn::formats::HuggingFaceIndex> index;
  const cairn::fuzz::MemoryBound bound(65536 + 128 * size);
  while (!input.rest().empty()) {
    const std::string_view line = input.take_until('\n');
    if (line.starts_with('#')) {
      index = attempt({Errc::malformed_metadata},
                      [&] { return cairn::formats::parse_hugging_face_index(line.substr(1), "index"); });
    } else if (auto header = read_header(line)) {
      files.push_back({std::string(1, static_cast<char>('a' + files.size() % 26)), std::move(*header)});
    }
  }
  const auto tensors =
      attempt({Errc::malformed_metadata, Errc::overlapping_shards, Errc::incomplete_shards},
              [&] { return cairn::formats::gather_tensors(files, index ? &*index : nullptr); });
  if (tensors) {
    require(std::is_sorted(tensors->begin(), tensors->end(),
                           [](const ForeignArray& a, const ForeignArray& b) { return a.path < b.path; }),
            "tensors are sorted by name");
    for (const ForeignArray& tensor : *tensors) {
      check(tensor, files);
    }
  }
  return 0;
}
