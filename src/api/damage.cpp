// SPDX-License-Identifier: Apache-2.0
#include "api/internal/damage.hpp"

#include <cerrno>

#include "cairn/base/error.hpp"

#include "store/internal/listing.hpp"

namespace cairn::api {

bool is_damage(std::error_code code, io::Syscalls& syscalls, const std::filesystem::path& path) {
  if (code == std::errc::no_such_file_or_directory) {
    return !store::is_committed(syscalls, path);  // Else it is what was asked for that is not in it.
  }
  return code == Errc::checksum_mismatch || code == Errc::malformed_metadata || code == Errc::not_committed ||
         code == Errc::io_failure || code == std::error_code(EIO, std::system_category()) ||
         code == std::error_code(EUCLEAN, std::system_category());
}

}  // namespace cairn::api
