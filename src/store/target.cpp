// SPDX-License-Identifier: Apache-2.0
#include "store/target.hpp"

#include <system_error>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "store/names.hpp"

namespace cairn::store {

Target parse_target(const std::filesystem::path& path) {
  io::require_path(path);
  const std::filesystem::path plain =
      path.has_filename() || !path.has_parent_path() ? path : path.parent_path();
  Target parsed{plain, plain.parent_path().empty() ? "." : plain.parent_path(), plain.filename()};
  if (!io::is_plain_relative(parsed.name)) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}' does not end in the name of a checkpoint", path.string()));
  }
  if (parsed.name.size() > kMostTargetBytes) {
    throw Error(Errc::invalid_argument, fmt::format("'{}': names of checkpoints have at most {} bytes",
                                                    path.string(), kMostTargetBytes));
  }
  if (reserved_kind(parsed.name) || parsed.name.starts_with(kPartialPrefix) ||
      parsed.name.starts_with(kRunPrefix)) {
    throw Error(Errc::invalid_argument, fmt::format("'{}' is a name that Cairn reserves", path.string()));
  }
  return parsed;
}

io::Directory open_parent(io::Syscalls& syscalls, const Target& target) {
  try {
    return io::Directory::open(syscalls, target.parent);
  } catch (const Error& error) {
    if (error.code() == std::errc::no_such_file_or_directory) {
      throw Error(Errc::not_found, fmt::format("the directory {} for the checkpoint '{}'",
                                               target.parent.string(), target.name));
    }
    throw;
  }
}

}  // namespace cairn::store
