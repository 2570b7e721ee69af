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

#include "io/internal/check.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/staged_state.hpp"
#include "store/target.hpp"

namespace cairn::store {
namespace {

constexpr std::uint32_t kDirectoryMode = 0777;

bool is_missing(const Error& error) {
  return error.code() == std::errc::no_such_file_or_directory;
}

SaveTarget opened(Target parsed, io::Directory parent) {
  io::FileStatus status;
  io::require(io::uninterrupted([&] { return parent.syscalls().status(parent.fd(), status); }), "stat",
              parent.path());
  return {std::move(parsed.path), std::move(parsed.name), std::move(parent), status.id, nullptr};
}

/// What there is of the way to a target's directory, and the names that are missing below it, outermost first.
struct Way {
  io::Directory there;
  std::vector<std::string> missing;
};

/// Names the part of the way that is a file.
[[noreturn]] void throw_not_a_directory(io::Syscalls& syscalls, const std::filesystem::path& way) {
  std::filesystem::path path = way;
  io::FileStatus ignored;
  while (path.has_relative_path() &&
         syscalls.status_at(AT_FDCWD, path.parent_path().c_str(), ignored) == -ENOTDIR) {
    path = path.parent_path();
  }
  const bool is_file = syscalls.status_at(AT_FDCWD, path.c_str(), ignored) != -ENOTDIR;
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
    throw Error(Errc::not_found, fmt::format("the directory {} for the checkpoint '{}': {} leads nowhere",
                                             target.parent.string(), target.name, first.string()));
  }
  const bool goes_up = std::find(way.missing.begin(), way.missing.end(), "..") != way.missing.end();
  if (goes_up || way.missing.size() > create_parents) {
    throw Error(
        Errc::not_found,
        fmt::format("the directory {} for the checkpoint '{}': {} is missing, and {} of "
                    "SaveOptions::create_parents {} made",
                    target.parent.string(), target.name, first.string(),
                    goes_up ? "no way with '..'"
                            : fmt::format("only {} level{}", create_parents, create_parents == 1 ? "" : "s"),
                    goes_up || create_parents == 1 ? "is" : "are"));
  }
}

/// Makes what is missing. Returns the innermost directory; nothing when somebody has removed one meanwhile.
std::optional<io::Directory> make_levels(Way way, std::vector<MadeLevel>& levels) {
  io::Directory at = std::move(way.there);
  for (const std::string& name : way.missing) {
    // After an interrupted call nobody can tell whose it is: then it counts as somebody else's.
    const int made = io::uninterrupted(
        [&] { return at.syscalls().make_directory_at(at.fd(), name.c_str(), kDirectoryMode); });
    if (made == -ENOENT) {
      return std::nullopt;
    }
    if (made != -EEXIST) {
      io::require(made, "mkdir", at.path() / name);
    }
    levels.push_back({std::move(at), name, made >= 0});
    try {
      at = levels.back().parent.open_directory(name);
    } catch (const Error& error) {
      if (!is_missing(error)) {
        throw;
      }
      return std::nullopt;
    }
  }
  return at;
}

/// Opens the directory of a target, and makes what is missing of it. Nothing when it was removed meanwhile.
std::optional<SaveTarget> try_to_reach(io::Syscalls& syscalls, const Target& parsed,
                                       unsigned create_parents) {
  const std::uint64_t removals = ParentUse::removals();
  Way way = find_way(syscalls, parsed);
  require_short(way, parsed, create_parents);
  if (!way.missing.empty()) {
    require_outside_checkpoints(way.there, parsed.path);
  }
  std::vector<MadeLevel> levels;
  try {
    std::optional<io::Directory> parent = make_levels(std::move(way), levels);
    if (parent) {
      SaveTarget target = opened(parsed, std::move(*parent));
      target.use = ParentUse::join(target.directory, std::move(levels));
      if (target.use && (removals == ParentUse::removals() || !target.parent.is_replaced())) {
        return target;
      }
    }
  } catch (...) {
    remove_empty_levels(levels);
    throw;
  }
  remove_empty_levels(levels);
  return std::nullopt;
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
  throw Error(Errc::not_found,
              fmt::format("the directory {} for the checkpoint '{}': somebody keeps removing it",
                          parsed.parent.string(), parsed.name));
}

}  // namespace cairn::store
