// SPDX-License-Identifier: Apache-2.0
#include "training/internal/damaged_aside.hpp"

#include <system_error>

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "io/internal/file.hpp"
#include "store/internal/manifest.hpp"
#include "store/internal/recovery.hpp"
#include "training/own_directory.hpp"

namespace cairn::training {
namespace {

/// Returns whether it has the files by which a save knows what it may replace.
bool is_replaceable(const io::Directory& checkpoint) {
  const auto has = [&checkpoint](std::string_view name) {
    const std::optional<io::FileStatus> status = checkpoint.status(name);
    return status && status->kind == io::FileKind::regular;
  };
  return has(store::kCommitName) && has(store::kManifestName);
}

/// Returns whether recovery, too, takes it for a damaged checkpoint: not for a save that goes on, nor for
/// somebody else's directory.
bool is_damaged_checkpoint(io::Syscalls& syscalls, const std::filesystem::path& root,
                           const std::string& name) {
  const store::RecoveryReport report = store::scan_directory(syscalls, root);
  return std::any_of(report.entries.begin(), report.entries.end(), [&name](const store::RecoveryEntry& each) {
    return each.name == name && each.kind == store::EntryClass::damaged;
  });
}

}  // namespace

bool set_damaged_aside(io::Syscalls& syscalls, const std::filesystem::path& root, const std::string& name,
                       const store::RandomSource& random) {
  const io::Directory directory = io::Directory::open(syscalls, root);
  const std::optional<io::FileStatus> status = directory.status(name);
  return status && status->kind == io::FileKind::directory &&
         !is_replaceable(directory.open_directory(name)) &&
         set_any_damaged_aside(syscalls, root, name, random);
}

bool set_any_damaged_aside(io::Syscalls& syscalls, const std::filesystem::path& root, const std::string& name,
                           const store::RandomSource& random) {
  if (!is_damaged_checkpoint(syscalls, root, name)) {
    return false;
  }
  const io::Directory directory = io::Directory::open(syscalls, root);
  const io::Directory aside = open_own_directory(directory, kDamagedName);
  const std::string moved = fmt::format("{}-{}", name, store::to_string(store::make_uuid(random)));
  directory.rename(name, aside, moved, io::RenameMode::replace);  // The new name is nobody's.
  aside.sync();
  directory.sync();
  return true;
}

}  // namespace cairn::training
