// SPDX-License-Identifier: Apache-2.0
#include "store/internal/save_target.hpp"

#include <fcntl.h>
#include <system_error>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/memory_mark.hpp"
#include "store/staged_state.hpp"
#include "store/target.hpp"

namespace cairn::store {
namespace {

bool is_missing(const Error& error) {
  return error.code() == std::errc::no_such_file_or_directory;
}

io::FileId id_of(const io::Directory& directory) {
  io::FileStatus status;
  io::require(io::uninterrupted([&] { return directory.syscalls().status(directory.fd(), status); }), "stat",
              directory.path());
  return status.id;
}

SaveTarget opened(Target parsed, io::Directory parent) {
  CAIRN_ASSERT(!parsed.name.empty(), "a target has a name");
  const io::FileId id = id_of(parent);
  const bool is_in_memory = lies_in_memory(parent.syscalls(), parent.fd());
  return {std::move(parsed.path), std::move(parsed.name), std::move(parent), id, nullptr, is_in_memory};
}

/// The part of the way to a target's directory that is there, and the names that are missing below it,
/// outermost first.
struct Way {
  io::Directory there;
  std::vector<std::string> missing;
};

/// Names the part of the way that is a file.
[[noreturn]] void throw_not_a_directory(io::Syscalls& syscalls, const std::filesystem::path& way) {
  std::filesystem::path path = way;
  io::FileStatus ignored;
  const auto is_below_a_file = [&](const std::filesystem::path& part) {
    return io::uninterrupted([&] { return syscalls.status_at(AT_FDCWD, part.c_str(), ignored); }) == -ENOTDIR;
  };
  while (path.has_relative_path() && is_below_a_file(path.parent_path())) {
    path = path.parent_path();
  }
  const bool is_file = !is_below_a_file(path);
  throw Error(std::error_code(ENOTDIR, std::system_category()),
              fmt::format("open {}", (is_file ? path : path.parent_path()).string()));
}

Way find_way(io::Syscalls& syscalls, const Target& target) {
  std::filesystem::path path = target.parent;
  std::vector<std::string> missing;
  while (true) {
    try {
      Way way{io::Directory::open(syscalls, path.empty() ? "." : path), std::move(missing)};
      std::reverse(way.missing.begin(), way.missing.end());
      return way;
    } catch (const Error& error) {
      if (error.code() == std::errc::not_a_directory) {
        throw_not_a_directory(syscalls, path);
      }
      if (!is_missing(error) || !path.has_relative_path()) {
        throw;
      }
    }
    if (path.filename() != ".") {
      missing.push_back(path.filename());
    }
    path = path.parent_path();
  }
}

/// Refuses a way on which more is missing than may be made, and one that cannot be made by the names that it has.
///
/// Errors: Errc::not_found, naming the first directory that is missing.
void require_short(const Way& way, const Target& target, unsigned create_parents) {
  if (way.missing.empty()) {
    return;
  }
  const std::filesystem::path first = way.there.path() / way.missing.front();
  // Not a directory that another save has made since.
  const std::optional<io::FileStatus> there = way.there.status(way.missing.front());
  if (there && there->kind == io::FileKind::symlink) {
    throw Error(Errc::not_found,
                fmt::format("the directory {} for the checkpoint '{}': {} is a dangling symbolic link",
                            target.parent.string(), target.name, first.string()));
  }
  const bool goes_up = std::find(way.missing.begin(), way.missing.end(), "..") != way.missing.end();
  const std::size_t levels = way.missing.size();
  if (goes_up || levels > create_parents) {
    throw Error(Errc::not_found,
                fmt::format("the directory {} for the checkpoint '{}': {} is missing, {}",
                            target.parent.string(), target.name, first.string(),
                            goes_up ? "and no path is made that goes up from there by '..'"
                                    : fmt::format("{} level{} in all, and SaveOptions::create_parents is {}",
                                                  levels, levels == 1 ? "" : "s", create_parents)));
  }
}

/// A directory above a target, and the use that the save makes of it.
struct Reached {
  std::shared_ptr<io::Directory> directory;
  std::shared_ptr<ParentUse> use;
};

/// Makes a directory that is missing, and joins those that use it. Nothing when somebody has removed it meanwhile, or
/// the one above.
std::optional<Reached> make_level(const Reached& above, const std::string& name) {
  const io::Directory& parent = *above.directory;
  // After an interrupted call nobody can tell whose it is: then it counts as somebody else's.
  const int made = io::uninterrupted(
      [&] { return parent.syscalls().make_directory_at(parent.fd(), name.c_str(), io::kDirectoryMode); });
  if (made == -ENOENT) {
    CAIRN_PROBE("store.parent_removed_while_made");
    if (parent.is_replaced()) {
      return std::nullopt;
    }
    // It is there: procfs and the like answer so to every mkdir, and another attempt would not help.
    throw Error(std::error_code(ENOENT, std::system_category()),
                fmt::format("mkdir {}: its file system does not let directories be created there",
                            (parent.path() / name).string()));
  }
  if (made != -EEXIST) {
    io::require(made, "mkdir", parent.path() / name);
  }
  // It is joined before it is opened: what fails from here on removes it.
  const std::optional<io::FileStatus> status = parent.status(name);
  if (!status) {
    CAIRN_PROBE("store.made_parent_is_gone");
    return std::nullopt;
  }
  Reached level;
  level.use = ParentUse::join(status->id, {above.directory, name, made >= 0, above.use});
  if (!level.use) {
    CAIRN_PROBE("store.joined_parent_is_gone");
    return std::nullopt;
  }
  try {
    level.directory = std::make_shared<io::Directory>(parent.open_directory(name));
  } catch (const Error& error) {
    if (!is_missing(error)) {
      throw;
    }
    return std::nullopt;
  }
  return level;
}

/// Opens the directory of a target, and makes what is missing of it. Nothing when it was removed meanwhile.
std::optional<SaveTarget> try_to_reach(io::Syscalls& syscalls, const Target& parsed,
                                       unsigned create_parents) {
  const std::uint64_t removals = ParentUse::removals();
  Way way = find_way(syscalls, parsed);
  require_short(way, parsed, create_parents);
  if (way.missing.empty()) {
    SaveTarget target = opened(parsed, std::move(way.there));
    target.use = ParentUse::join(target.directory);
    const bool is_there = target.use && (removals == ParentUse::removals() || !target.parent.is_replaced());
    return is_there ? std::optional(std::move(target)) : std::nullopt;
  }
  require_outside_checkpoints(way.there, parsed.path);
  Reached level;
  level.use = ParentUse::join(id_of(way.there));
  level.directory = std::make_shared<io::Directory>(std::move(way.there));
  for (const std::string& name : way.missing) {
    std::optional<Reached> next = level.use ? make_level(level, name) : std::nullopt;
    if (!next) {
      return std::nullopt;
    }
    level = std::move(*next);
  }
  CAIRN_ASSERT(level.directory != nullptr && level.directory.use_count() == 1,
               "nobody else holds the innermost directory");
  SaveTarget target = opened(parsed, std::move(*level.directory));  // Nobody else holds the innermost.
  target.use = std::move(level.use);
  if (removals != ParentUse::removals() && target.parent.is_replaced()) {
    CAIRN_PROBE("store.parents_removed_while_reached");
    return std::nullopt;
  }
  return target;
}

}  // namespace

std::filesystem::path target_path(const std::filesystem::path& path) {
  return parse_target(path).path;
}

SaveTarget open_target(io::Syscalls& syscalls, const std::filesystem::path& path) {
  Target parsed = parse_target(path);
  io::Directory parent = open_parent(syscalls, parsed);
  return opened(std::move(parsed), std::move(parent));
}

std::optional<SaveTarget> open_target_if_made(io::Syscalls& syscalls, const std::filesystem::path& path,
                                              unsigned create_parents) {
  Target parsed = parse_target(path);
  Way way = find_way(syscalls, parsed);
  require_short(way, parsed, create_parents);
  return way.missing.empty() ? std::optional(opened(std::move(parsed), std::move(way.there))) : std::nullopt;
}

SaveTarget look_at_target(io::Syscalls& syscalls, const std::filesystem::path& path, bool overwrite,
                          unsigned create_parents) {
  const Target parsed = parse_target(path);
  for (int restarts = 0; restarts <= kMostRestarts; ++restarts) {
    if (std::optional<SaveTarget> target = try_to_reach(syscalls, parsed, create_parents)) {
      if (target->parent.status(target->name)) {
        require_replaceable(target->parent, Current{target->name, 1}, overwrite);
      }
      return std::move(*target);
    }
  }
  CAIRN_PROBE("store.parents_keep_going");
  throw Error(Errc::not_found,
              fmt::format("the directory {} for the checkpoint '{}': another process keeps removing it",
                          parsed.parent.string(), parsed.name));
}

}  // namespace cairn::store
