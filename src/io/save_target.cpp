// SPDX-License-Identifier: Apache-2.0
#include "cairn/io/save_target.hpp"

#include "io/check.hpp"
#include "io/staged_state.hpp"
#include "io/target.hpp"

namespace cairn::io {

SaveTarget open_target(Syscalls& syscalls, const std::filesystem::path& path) {
  Target parsed = parse_target(path);
  Directory parent = open_parent(syscalls, parsed);
  FileStatus status;
  require(syscalls.status(parent.fd(), status), "stat", parent.path());
  return {std::move(parsed.path), std::move(parsed.name), std::move(parent), status.id};
}

SaveTarget look_at_target(Syscalls& syscalls, const std::filesystem::path& path, bool overwrite) {
  SaveTarget target = open_target(syscalls, path);
  if (target.parent.status(target.name)) {
    require_replaceable(target.parent, Current{target.name, 1}, overwrite);
  }
  return target;
}

}  // namespace cairn::io
