// SPDX-License-Identifier: Apache-2.0
#include "store/retire.hpp"

#include <system_error>

#include <array>
#include <cerrno>
#include <exception>
#include <optional>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "io/internal/remove_directory.hpp"
#include "store/commit_record.hpp"
#include "store/contents.hpp"
#include "store/internal/manifest.hpp"
#include "store/internal/spare_files.hpp"
#include "store/names.hpp"

namespace cairn::store {
namespace {

/// Returns what tells the checkpoint's files from others; nothing when there are none but our own few.
///
/// Errors: Errc::malformed_metadata.
std::optional<Manifest> manifest_of(const io::Directory& directory) {
  try {
    return read_manifest(directory);
  } catch (const Error& error) {
    if (error.code().category() != cairn_category()) {
      throw;
    }
    if (holds_only_own_files(directory)) {  // The end of a removal that was cut short.
      CAIRN_PROBE("store.removal_goes_on");
      return std::nullopt;
    }
    throw Error(Errc::malformed_metadata,
                fmt::format("cannot determine which files belong to the checkpoint ({}), so none is removed",
                            error.detail()));
  }
}

void remove_empty(const io::Directory& parent, const std::string& name) {
  try {
    parent.remove_empty_directory(name);
  } catch (const Error& error) {  // Somebody else may remove the same.
    if (error.code() != std::errc::no_such_file_or_directory) {
      throw;
    }
    CAIRN_PROBE("store.empty_directory_is_gone");
  }
}

/// The name that a checkpoint had before it was set aside.
std::string home_of(const std::string& name, std::uint32_t generation) {
  const std::optional<ReservedName> reserved = parse_reserved(name);
  return reserved ? generation_name(reserved->base, generation) : name;
}

/// Gives what is not ours its old name back, where that is free.
std::string put_back(const io::Directory& parent, const std::string& name, const std::string& home,
                     const io::Directory& directory) {
  try {
    if (name != home && is_called(parent, name, directory)) {
      rename_to_free_name(parent, name, home);
      return home;
    }
  } catch (const Error&) {  // It stays where it is, and nobody takes it for a checkpoint.
    CAIRN_PROBE("store.not_put_back");
  }
  return name;
}

}  // namespace

bool is_called(const io::Directory& parent, const std::string& name,
               const io::Directory& directory) noexcept {
  io::FileStatus found;
  io::FileStatus own;
  io::Syscalls& syscalls = parent.syscalls();
  return io::uninterrupted([&] { return syscalls.status_at(parent.fd(), name.c_str(), found); }) >= 0 &&
         io::uninterrupted([&] { return syscalls.status(directory.fd(), own); }) >= 0 && found.id == own.id;
}

void rename_to_free_name(const io::Directory& parent, const std::string& name, const std::string& free_name) {
  rename_to_free_name(parent, name, parent, free_name);
}

void rename_to_free_name(const io::Directory& parent, const std::string& name, const io::Directory& to,
                         const std::string& free_name) {
  const std::filesystem::path path = to.path() / free_name;
  const std::string operation = fmt::format("rename {} to", (parent.path() / name).string());
  const auto rename = [&](io::RenameMode mode) {
    return io::done_at_last(-ENOENT, [&] {
      return parent.syscalls().rename_at(parent.fd(), name.c_str(), to.fd(), free_name.c_str(), mode);
    });
  };
  int result = rename(io::RenameMode::no_replace);
  if (io::is_unsupported(result)) {
    CAIRN_PROBE("store.no_rename_without_replacing");
    if (to.status(free_name)) {
      throw_errno(EEXIST, operation, path);
    }
    // What may come between is replaced only when it is an empty directory.
    result = rename(io::RenameMode::replace);
  }
  io::require(result, operation, path);
}

void set_aside(const io::Directory& parent, const std::string& name, const std::string& aside,
               const io::Directory& directory) {
  const int result = io::uninterrupted([&] {
    return parent.syscalls().rename_at(parent.fd(), name.c_str(), parent.fd(), aside.c_str(),
                                       io::RenameMode::replace);  // The new name is nobody's.
  });
  CAIRN_ASSERT(name != aside, "what is set aside gets a name of its own");
  if (result == -EXDEV) {
    throw Error(
        std::error_code(EXDEV, std::system_category()),
        fmt::format("{} lies in the lower layer of an overlay file system and cannot be renamed, so it is "
                    "not removed",
                    (parent.path() / name).string()));
  }
  if (result < 0 && !is_called(parent, aside, directory)) {  // Else its answer was lost, and it was done.
    CAIRN_PROBE("store.not_set_aside");
    throw_errno(-result, fmt::format("rename {} to", (parent.path() / name).string()), parent.path() / aside);
  }
}

std::string retire(const io::Directory& parent, const std::string& name, std::string_view base,
                   const io::Directory& directory, Retirement why, const RandomSource& random) {
  const Uuid uuid = make_uuid(random);
  const std::string aside = why == Retirement::removed ? trash_name(base, uuid) : temporary_name(base, uuid);
  CAIRN_ASSERT(parse_reserved(aside), "recovery knows by its name what was retired");
  set_aside(parent, name, aside, directory);
  parent.sync();
  return remove_retired(parent, aside, directory);
}

std::string remove_retired(const io::Directory& parent, const std::string& name,
                           const io::Directory& directory) {
  try {
    const std::optional<Manifest> manifest = manifest_of(directory);
    const Foreign foreign = remove_checkpoint_files(directory, manifest.value_or(Manifest()),
                                                    RemovalOrder::any, removing_from(parent));
    if (foreign.count == 0) {
      remove_empty(parent, name);
      return "";
    }
    const std::string where =
        put_back(parent, name, home_of(name, manifest.value_or(Manifest()).generation), directory);
    CAIRN_PROBE("store.retired_with_foreign_files");
    return fmt::format("kept in {}, because the checkpoint does not list it: {}",
                       (parent.path() / where).string(), listed(foreign));
  } catch (const Error&) {  // It says what the directory was called when it was opened.
    const std::string context = fmt::format("remove {}", (parent.path() / name).string());
    std::rethrow_exception(with_context(std::current_exception(), context));
  }
}

void remove_unfinished(const io::Directory& parent, const std::string& name, const io::Directory& directory) {
  constexpr std::array<std::string_view, 2> kLast = {kUncommittedName, kOwnerName};
  if (directory.status(kCommitName)) {
    directory.remove_file(kCommitName);
    directory.sync();
  }
  io::remove_directory(parent, name, directory, kLast, removing_from(parent));
}

}  // namespace cairn::store
