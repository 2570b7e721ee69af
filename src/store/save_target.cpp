// SPDX-License-Identifier: Apache-2.0
#include "store/internal/save_target.hpp"

#include "io/internal/check.hpp"
#include "store/staged_state.hpp"
#include "store/target.hpp"

namespace cairn::store {

std::filesystem::path target_path(const std::filesystem::path& path) {
  return parse_target(path).path;
}

SaveTarget open_target(io::Syscalls& syscalls, const std::filesystem::path& path) {
  Target parsed = parse_target(path);
  io::Directory parent = open_parent(syscalls, parsed);
  io::FileStatus status;
  io::require(syscalls.status(parent.fd(), status), "stat", parent.path());
  return {std::move(parsed.path), std::move(parsed.name), std::move(parent), status.id};
}

SaveTarget look_at_target(io::Syscalls& syscalls, const std::filesystem::path& path, bool overwrite) {
  SaveTarget target = open_target(syscalls, path);
  if (target.parent.status(target.name)) {
    require_replaceable(target.parent, Current{target.name, 1}, overwrite);
  }
  return target;
}

}  // namespace cairn::store
