// SPDX-License-Identifier: Apache-2.0
#include "cli/listing.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/io/committed_directory.hpp"
#include "cairn/io/file.hpp"

#include "cli/text.hpp"

namespace cairn::cli {
namespace {

/// Directories that may not be looked into are nobody's checkpoint: a lost+found among them must not hide the
/// rest.
bool has_commit(const io::Directory& root, const std::string& name) {
  try {
    return root.open_directory(name).status(io::kCommitName).has_value();
  } catch (const Error&) {
    return false;
  }
}

/// Nothing for a directory that is no checkpoint at all.
std::optional<Listed> look_at(const io::Directory& root, const std::string& name) {
  if (name.starts_with('.') || !has_commit(root, name)) {
    return std::nullopt;
  }
  Listed listed;
  listed.name = name;
  try {
    const auto checkpoint = io::CommittedDirectory::open(root.syscalls(), root.path() / name);
    const io::Manifest& manifest = checkpoint.manifest();
    listed.generation = manifest.generation;
    // An overwritten checkpoint lies in "<name>.g<generation>" and is opened by its name.
    const std::string suffix = fmt::format(".g{}", manifest.generation);
    if (manifest.generation > 1 && name.ends_with(suffix)) {
      listed.name.resize(name.size() - suffix.size());
    }
    listed.committed = manifest.committed;
    listed.checkpointables = manifest.checkpointables.size();
    for (const io::FileEntry& file : manifest.files) {
      listed.bytes += file.size_bytes;
    }
  } catch (const Error& error) {
    listed.problem = error.what();
  }
  return listed;
}

}  // namespace

std::vector<Listed> find_checkpoints(const std::filesystem::path& path) {
  const io::Directory root = io::Directory::open(io::posix_syscalls(), path);
  std::vector<Listed> found;
  for (const io::DirectoryEntry& entry : root.list()) {
    if (entry.kind != io::FileKind::directory) {
      continue;
    }
    const std::optional<Listed> listed = look_at(root, entry.name);
    const auto same = std::find_if(found.begin(), found.end(),
                                   [&](const Listed& each) { return listed && each.name == listed->name; });
    if (listed && same == found.end()) {
      found.push_back(*listed);
    } else if (listed && same->generation < listed->generation) {
      *same = *listed;
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Listed& a, const Listed& b) { return is_naturally_less(a.name, b.name); });
  return found;
}

}  // namespace cairn::cli
