// SPDX-License-Identifier: Apache-2.0
#include "cairn/io/remove_checkpoint.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/io/committed_directory.hpp"
#include "cairn/io/file.hpp"

#include "io/commit_record.hpp"
#include "io/names.hpp"
#include "io/retire.hpp"
#include "io/target.hpp"

namespace cairn::io {
namespace {

/// Whether `directory` is that generation of a checkpoint, as readers see it.
///
/// Errors: Errc::malformed_metadata when that cannot be told.
bool is_generation(const Directory& directory, std::uint32_t generation) {
  const CommitCheck check = check_commit(directory, false);
  if (!check.is_committed && directory.status(kCommitName)) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{} may be a later generation ({})", directory.path().string(), check.problem));
  }
  return check.is_committed && check.generation == generation;
}

/// Opens what has the checkpoint's own name; refuses what is none.
Directory open_first(const Directory& parent, const std::string& name, const FileStatus& status) {
  if (status.kind != FileKind::directory) {
    throw Error(Errc::not_committed, fmt::format("{} is no directory", (parent.path() / name).string()));
  }
  Directory directory = parent.open_directory(name);
  static_cast<void>(read_commit_record(directory));
  return directory;
}

/// A generation, held open so that nothing else is removed in its place.
struct Generation {
  std::string name;
  Directory directory;
};

}  // namespace

void remove_checkpoint(Syscalls& syscalls, const std::filesystem::path& path, const RandomSource& random) {
  const Target target = parse_target(path);
  const Directory parent = open_parent(syscalls, target);
  std::vector<Generation> later;  // The highest first.
  for (const std::uint32_t generation : list_generations(parent, target.name)) {
    if (generation == 1) {
      continue;
    }
    const std::string name = generation_name(target.name, generation);
    Directory directory = parent.open_directory(name);
    if (is_generation(directory, generation)) {
      later.push_back({name, std::move(directory)});
    }
  }
  const std::optional<FileStatus> first = parent.status(target.name);
  if (!first && later.empty()) {
    throw Error(Errc::not_found, target.path.string());
  }
  if (first) {
    later.push_back({target.name, open_first(parent, target.name, *first)});
  }
  for (auto oldest = later.rbegin(); oldest != later.rend(); ++oldest) {
    retire(parent, oldest->name, oldest->directory, random);
  }
}

}  // namespace cairn::io
