// SPDX-License-Identifier: Apache-2.0
// The input is a model.safetensors.index.json. An Error, or file names that are plain components.
#include <algorithm>
#include <string>
#include <vector>

#include "formats/internal/hugging_face.hpp"
#include "fuzz/fuzzing.hpp"
#include "io/internal/file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using cairn::Errc;
  using cairn::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const cairn::fuzz::MemoryBound bound(65536 + 64 * size);
  const auto index = cairn::fuzz::attempt(
      {Errc::malformed_metadata}, [&] { return cairn::formats::parse_hugging_face_index(text, "input"); });
  if (index) {
    const std::vector<std::string> files = index->files();
    require(std::is_sorted(files.begin(), files.end()), "files are sorted");
    require(std::adjacent_find(files.begin(), files.end()) == files.end(), "files are unique");
    for (const std::string& file : files) {
      require(cairn::io::is_plain_relative(file) && file.find_first_of("/\\") == std::string::npos &&
                  file.size() <= 255,
              "a file is a plain component");
    }
    for (const auto& [tensor, file] : index->weight_map) {
      require(std::binary_search(files.begin(), files.end(), file), "every tensor's file is among the files");
    }
  }
  return 0;
}
