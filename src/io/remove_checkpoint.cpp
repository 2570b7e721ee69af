// SPDX-License-Identifier: Apache-2.0
#include "cairn/io/remove_checkpoint.hpp"

#include <cstdint>
#include <optional>
#include <string>
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

/// Whether the directory called `name` is that generation of a checkpoint, as readers see it.
///
/// Errors: Errc::malformed_metadata when that cannot be told.
bool is_generation(const Directory& parent, const std::string& name, std::uint32_t generation) {
  const CommitCheck check = check_commit(parent, name, false);
  if (!check.is_committed && parent.open_directory(name).status(kCommitName)) {
    throw Error(Errc::malformed_metadata, fmt::format("{} may be a later generation ({})",
                                                      (parent.path() / name).string(), check.problem));
  }
  return check.is_committed && check.generation == generation;
}

/// Refuses what has the checkpoint's own name and is none.
void require_checkpoint(const Directory& parent, const std::string& name, const FileStatus& status) {
  if (status.kind != FileKind::directory) {
    throw Error(Errc::not_committed, fmt::format("{} is no directory", (parent.path() / name).string()));
  }
  static_cast<void>(read_commit_record(parent.open_directory(name)));
}

}  // namespace

void remove_checkpoint(Syscalls& syscalls, const std::filesystem::path& path, const RandomSource& random) {
  const Target target = parse_target(path);
  const Directory parent = open_parent(syscalls, target);
  std::vector<std::string> later;  // The highest first.
  for (const std::uint32_t generation : list_generations(parent, target.name)) {
    const std::string name = generation_name(target.name, generation);
    if (generation > 1 && is_generation(parent, name, generation)) {
      later.push_back(name);
    }
  }
  const std::optional<FileStatus> first = parent.status(target.name);
  if (!first && later.empty()) {
    throw Error(Errc::not_found, target.path.string());
  }
  if (first) {
    require_checkpoint(parent, target.name, *first);
    later.push_back(target.name);
  }
  for (auto oldest = later.rbegin(); oldest != later.rend(); ++oldest) {
    retire(parent, *oldest, random);
  }
}

}  // namespace cairn::io
