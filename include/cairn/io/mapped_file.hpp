// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "cairn/io/file.hpp"

namespace cairn::io {

/// The bytes of a file as read-only memory: the kernel reads a page when somebody looks at it.
///
/// The file may be closed, renamed and removed meanwhile; it must not be made shorter, or whoever looks at what is
/// gone is sent SIGBUS.
/// Threads: may be read by several at once.
class MappedFile {
 public:
  /// Maps the first `bytes` of `file`, which has them. `path` is for messages.
  ///
  /// Errors: Errc::io_failure when the file is shorter; OS errors of fstat and mmap.
  MappedFile(const FileHandle& file, std::uint64_t bytes, const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace cairn::io
