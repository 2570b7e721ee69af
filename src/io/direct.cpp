// SPDX-License-Identifier: Apache-2.0
#include "io/internal/direct.hpp"

#include <fcntl.h>

#include <cerrno>

#include <fmt/format.h>

#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"

namespace cairn::io {
namespace {

constexpr const char* kRefused = "the file system refuses O_DIRECT";

}  // namespace

std::string why_not_direct(const FileHandle& file) {
  FileStatus status;
  if (uninterrupted([&] { return file.syscalls().status(file.fd(), status); }) != 0 ||
      !status.is_direct_alignment_known) {
    return {};
  }
  if (status.direct_alignment_bytes == 0) {
    return kRefused;
  }
  if (status.direct_alignment_bytes > kDirectBytes) {
    return fmt::format("the disk wants O_DIRECT in blocks of {} bytes", status.direct_alignment_bytes);
  }
  return {};
}

FileHandle open_direct(const Directory& directory, std::string_view relative, const FileHandle& buffered,
                       std::string& refusal) {
  refusal = why_not_direct(buffered);
  if (!refusal.empty()) {
    return {};
  }
  Syscalls& syscalls = directory.syscalls();
  const std::string name(relative);
  const int fd = uninterrupted([&] {
    return syscalls.open_beneath(directory.fd(), name.c_str(), O_WRONLY | O_DIRECT | O_NOFOLLOW, 0);
  });
  if (fd < 0) {
    CAIRN_PROBE("io.open_direct_refused");
    refusal = why_not_direct(std::error_code(-fd, std::system_category()));
    return {};
  }
  return {syscalls, fd};
}

bool is_direct_refusal(std::error_code failure) noexcept {
  return failure == std::error_code(EINVAL, std::system_category()) ||
         failure == std::error_code(EOPNOTSUPP, std::system_category());
}

std::string why_not_direct(std::error_code failure) {
  return is_direct_refusal(failure) ? kRefused : fmt::format("no open with O_DIRECT ({})", failure.message());
}

}  // namespace cairn::io
