// SPDX-License-Identifier: Apache-2.0
#include "cli/listing.hpp"

#include <system_error>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "cli/text.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/manifest.hpp"

namespace cairn::cli {
namespace {

using store::EntryClass;

void describe_checkpoint(Listed& listed, const std::filesystem::path& root) {
  try {
    const auto checkpoint = store::CommittedDirectory::open(io::posix_syscalls(), root / listed.directory);
    const store::Manifest& manifest = checkpoint.manifest();
    listed.is_open = true;
    listed.generation = manifest.generation;
    // An overwritten checkpoint lies in "<name>.g<generation>" and is opened by its name.
    const std::string suffix = fmt::format(".g{}", manifest.generation);
    if (manifest.generation > 1 && listed.name.ends_with(suffix)) {
      listed.name.resize(listed.name.size() - suffix.size());
    }
    listed.committed = manifest.committed;
    listed.checkpointables = manifest.checkpointables.size();
    for (const store::FileEntry& file : manifest.files) {
      listed.bytes += file.size_bytes;
    }
  } catch (const Error& error) {
    listed.problem = error.what();
  }
}

Listed look_at(const std::filesystem::path& root, const store::RecoveryEntry& entry) {
  Listed listed;
  listed.name = entry.name;
  listed.directory = entry.name;
  listed.kind = entry.kind;
  listed.is_hidden = entry.is_hidden;
  listed.why = entry.note;
  if (listed.is_openable()) {
    describe_checkpoint(listed, root);
  }
  if (listed.counts() && entry.kind != EntryClass::committed && listed.problem.empty()) {
    const std::string path = root / entry.name;
    // Errors of the layers below name the path themselves.
    const bool is_named = entry.note.find(path) != std::string::npos;
    listed.problem = is_named ? entry.note : fmt::format("{}: {}", path, entry.note);
  }
  return listed;
}

}  // namespace

bool Listed::counts() const {
  switch (kind) {
    case EntryClass::committed:
      return !is_hidden;
    case EntryClass::damaged:
    case EntryClass::displaced:
      return true;
    case EntryClass::unreadable:
      return !directory.starts_with('.');  // Else it is what some save has left or is writing.
    case EntryClass::live:
    case EntryClass::abandoned:
    case EntryClass::retired:
    case EntryClass::foreign:
      break;
  }
  return false;
}

bool Listed::is_openable() const {
  return counts() && !directory.starts_with('.') &&
         (kind == EntryClass::committed || kind == EntryClass::damaged);
}

std::vector<Listed> find_checkpoints(const std::filesystem::path& path) {
  std::vector<Listed> found;
  for (const store::RecoveryEntry& entry : store::survey(io::posix_syscalls(), path).entries) {
    if (entry.kind != EntryClass::foreign) {
      found.push_back(look_at(path, entry));
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Listed& a, const Listed& b) { return is_naturally_less(a.name, b.name); });
  return found;
}

bool may_be_root(const std::filesystem::path& path) {
  const std::array<std::string_view, 3> own = {store::kCommitName, store::kManifestName, store::kChunksName};
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) &&
         std::none_of(own.begin(), own.end(), [&](std::string_view name) {
           return std::filesystem::exists(std::filesystem::symlink_status(path / name, ignored));
         });
}

}  // namespace cairn::cli
