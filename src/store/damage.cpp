// SPDX-License-Identifier: Apache-2.0
#include "store/internal/damage.hpp"

#include <cerrno>

#include "cairn/base/error.hpp"

#include "store/internal/listing.hpp"

namespace cairn::store {

bool is_damage(io::Syscalls& syscalls, std::error_code code, const std::filesystem::path& path) {
  if (code == std::errc::no_such_file_or_directory) {
    return !is_committed(syscalls, path);
  }
  return code == Errc::checksum_mismatch || code == Errc::malformed_metadata || code == Errc::not_committed ||
         code == Errc::io_failure || code == std::error_code(EIO, std::system_category()) ||
         code == std::error_code(EUCLEAN, std::system_category());
}

}  // namespace cairn::store
