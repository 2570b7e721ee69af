// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <fstream>
#include <utility>

#include "cairn/base/error.hpp"
#include "cairn/observe/report.hpp"

#include "io/internal/file.hpp"

namespace cairn {

TraceSink trace_to_file(std::filesystem::path path) {
  io::require_path(path);
  return [path = std::move(path)](std::string_view json) {
    errno = 0;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(json.data(), static_cast<std::streamsize>(json.size()));
    file.close();
    if (!file) {
      throw_errno(errno == 0 ? EIO : errno, "write trace", path);
    }
  };
}

}  // namespace cairn
