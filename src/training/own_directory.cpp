// SPDX-License-Identifier: Apache-2.0
#include "training/own_directory.hpp"

#include <system_error>

#include "cairn/base/error.hpp"

namespace cairn::training {

io::Directory open_own_directory(const io::Directory& root, std::string_view name) {
  try {
    static_cast<void>(root.make_directory(name));
  } catch (const Error& error) {
    if (error.code() != std::errc::file_exists) {
      throw;
    }
  }
  root.sync();  // Also one that is there: a crash may have made it.
  return root.open_directory(name);
}

}  // namespace cairn::training
