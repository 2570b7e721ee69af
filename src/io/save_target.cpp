// SPDX-License-Identifier: Apache-2.0
#include "cairn/io/save_target.hpp"

#include "io/check.hpp"
#include "io/staged_state.hpp"
#include "io/target.hpp"

namespace cairn::io {

SaveTarget look_at_target(Syscalls& syscalls, const std::filesystem::path& path, bool overwrite) {
  Target parsed = parse_target(path);
  Directory parent = open_parent(syscalls, parsed);
  FileStatus status;
  require(syscalls.status(parent.fd(), status), "stat", parent.path());
  if (parent.status(parsed.name)) {
    require_replaceable(parent, Current{parsed.name, 1}, overwrite);
  }
  return {std::move(parsed.path), std::move(parsed.name), std::move(parent), status.id};
}

}  // namespace cairn::io
