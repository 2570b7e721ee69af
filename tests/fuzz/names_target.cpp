// SPDX-License-Identifier: Apache-2.0
// The input is a name and, behind a line end, another: of checkpointables, entries, files, directories,
// checkpoints. A name that is valid becomes a path that stays where it belongs, and from which the name can
// be told.
#include <string>
#include <vector>

#include "base/internal/utf8.hpp"
#include "formats/internal/index.hpp"
#include "fuzz/fuzzing.hpp"
#include "io/internal/file.hpp"
#include "store/internal/checkpointable_names.hpp"
#include "store/internal/manifest.hpp"
#include "store/names.hpp"

namespace {

using cairn::Errc;
using cairn::fuzz::attempt;
using cairn::fuzz::require;

bool is_valid_name(std::string_view name) {
  return attempt({Errc::invalid_argument},
                 [&] {
                   cairn::store::validate_name(name);
                   return true;
                 })
      .has_value();
}

void check_directories(std::string_view one, std::string_view other) {
  if (!is_valid_name(one)) {
    return;
  }
  const std::string directory = cairn::store::directory_of(one);
  require(cairn::store::is_checkpointable_directory(directory),
          "a valid name has a plain directory of its own");
  require(directory.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.%") == std::string::npos,
          "a directory has no byte that file systems change");
  require(one == other || directory != cairn::store::directory_of(other),
          "other names have other directories");
}

void check_path(std::string_view path) {
  const auto keys = attempt({Errc::malformed_metadata}, [&] { return cairn::formats::split_path(path); });
  require(keys.has_value() == cairn::formats::is_entry_path(path), "exactly paths can be split");
  if (keys) {
    std::string joined;
    for (const std::string& key : *keys) {
      cairn::formats::append_key(joined, key);
    }
    require(joined == path, "the keys of a path make that path");
  }
}

void check_keys(std::string_view one, std::string_view other) {
  if (!cairn::is_valid_utf8(one) || !cairn::is_valid_utf8(other)) {
    return;
  }
  std::string path;
  cairn::formats::append_key(path, one);
  cairn::formats::append_key(path, other);
  const std::vector<std::string> keys = cairn::formats::split_path(path);
  require(keys.size() == 2 && keys[0] == one && keys[1] == other, "keys come back from their path");
}

void check_checkpoint_name(std::string_view name) {
  const cairn::store::GenerationName parsed = cairn::store::parse_generation(name);
  require(cairn::store::generation_name(parsed.base, parsed.generation) == name,
          "a generation's name comes back");
  require(parsed.generation == 1 || !parsed.base.empty(), "a later generation has a name before it");
  const cairn::store::Uuid uuid{};
  require(name.empty() || cairn::store::reserved_kind(cairn::store::temporary_name(name, uuid)) ==
                              cairn::store::ReservedKind::temporary,
          "a temporary name is known as one");
  const std::string trash = cairn::store::trash_name(name, uuid);
  const auto parts = cairn::store::parse_reserved(trash);
  require(name.empty() || (parts && parts->base == name && parts->uuid == uuid &&
                           parts->kind == cairn::store::ReservedKind::trash),
          "the parts of a name of trash come back");
  require(!cairn::store::reserved_kind(name) || name.starts_with('.'),
          "names of checkpoints are not reserved");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cairn::fuzz::Input input(data, size);
  const std::string_view one = input.take_until('\n');
  const std::string_view other = input.rest();
  const cairn::fuzz::MemoryBound bound(8192 + 64 * size);
  check_directories(one, other);
  check_path(one);
  check_keys(one, other);
  check_checkpoint_name(one);
  if (cairn::io::is_plain_relative(one)) {
    require(('/' + std::string(one) + '/').find("/../") == std::string::npos && !one.starts_with('/') &&
                one.find('\0') == std::string_view::npos,
            "a plain path stays inside its directory");
  }
  return 0;
}
