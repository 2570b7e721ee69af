// SPDX-License-Identifier: Apache-2.0
// The input is a checkpoint.json. An Error, or a manifest that keeps its invariants, and that encoded says
// the same.
#include <set>
#include <string>

#include "fuzz/fuzzing.hpp"
#include "io/internal/file.hpp"
#include "store/internal/manifest.hpp"

namespace {

using cairn::Errc;
using cairn::fuzz::require;

void check(const cairn::store::Manifest& manifest) {
  require(manifest.generation > 0 && manifest.world_size > 0, "counts start at 1");
  std::set<std::string_view> names;
  std::set<std::string_view> directories;
  for (const cairn::store::CheckpointableEntry& entry : manifest.checkpointables) {
    require(!entry.name.empty() && names.insert(entry.name).second, "names are unique");
    require(cairn::store::is_checkpointable_directory(entry.directory), "directories are plain");
    require(directories.insert(entry.directory).second, "directories are unique");
  }
  std::set<std::string> paths;
  std::uint64_t total_bytes = 0;
  for (const cairn::store::FileEntry& file : manifest.files) {
    require(cairn::io::is_plain_relative(file.path), "paths stay inside the checkpoint");
    require(paths.insert(file.path).second, "paths are unique");
    require(!__builtin_add_overflow(total_bytes, file.size_bytes, &total_bytes), "sizes add up");
  }
  for (const std::string& path : paths) {
    for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
      require(!paths.contains(path.substr(0, at)), "no file lies under another");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // A value of one or two bytes ("0,") becomes sixteen, and the list of them grows by doubling.
  const auto manifest = [&] {
    const cairn::fuzz::MemoryBound bound(65536 + 128 * size);
    return cairn::fuzz::attempt({Errc::malformed_metadata, Errc::unsupported_version},
                                [&] { return cairn::store::decode_manifest(text, "input"); });
  }();
  if (manifest) {
    check(*manifest);
    const std::string encoded = cairn::store::encode_manifest(*manifest);
    require(cairn::store::decode_manifest(encoded, "encoded") == *manifest,
            "an encoded manifest says the same");
  }
  return 0;
}
