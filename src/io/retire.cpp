// SPDX-License-Identifier: Apache-2.0
#include "io/retire.hpp"

#include <array>
#include <exception>
#include <string_view>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/io/committed_directory.hpp"

#include "io/names.hpp"
#include "io/remove_directory.hpp"

namespace cairn::io {

bool is_called(const Directory& parent, const std::string& name, const Directory& directory) noexcept {
  FileStatus found;
  FileStatus own;
  Syscalls& syscalls = parent.syscalls();
  return syscalls.status_at(parent.fd(), name.c_str(), found) >= 0 &&
         syscalls.status(directory.fd(), own) >= 0 && found.id == own.id;
}

void retire(const Directory& parent, const std::string& name, const Directory& directory,
            const RandomSource& random) {
  // A mark of ownership is proof enough; COMMIT is one only when it was written to its end.
  constexpr std::array<std::string_view, 3> kLast = {kCommitName, kUncommittedName, kOwnerName};
  std::string trash = name;
  if (!reserved_kind(name)) {
    trash = trash_name(parse_generation(name).base, make_uuid(random));
    const int result = parent.syscalls().rename_at(parent.fd(), name.c_str(), parent.fd(), trash.c_str(),
                                                   RenameMode::replace);  // The new name is nobody's.
    if (result < 0 && !is_called(parent, trash, directory)) {  // Else its answer was lost, and it was done.
      throw_errno(-result, fmt::format("rename {} to", (parent.path() / name).string()),
                  parent.path() / trash);
    }
    parent.sync();
  }
  try {
    remove_directory(parent, trash, directory, kLast);
  } catch (const Error&) {  // It says what the directory was called when it was opened.
    const std::string context = fmt::format("remove {}", (parent.path() / trash).string());
    std::rethrow_exception(with_context(std::current_exception(), context));
  }
}

}  // namespace cairn::io
