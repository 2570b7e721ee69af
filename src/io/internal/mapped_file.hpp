// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "io/internal/file.hpp"

namespace cairn::io {

/// The first `bytes` of `file` as read-only memory: the kernel reads a page when somebody looks at it. `path` is for
/// messages.
///
/// The file may be closed, renamed and removed meanwhile; it must not be made shorter, or a thread that looks at what
/// is gone is sent SIGBUS.
/// Threads: may be read by several at once.
/// Errors:  Errc::io_failure when the file is shorter; OS errors of fstat and mmap.
[[nodiscard]] std::shared_ptr<const std::span<const std::byte>> map_file(const FileHandle& file,
                                                                         std::uint64_t bytes,
                                                                         const std::filesystem::path& path);
/// The same of a file that another process writes meanwhile: what it writes is seen.
[[nodiscard]] std::shared_ptr<const std::span<const std::byte>> map_live_file(
    const FileHandle& file, std::uint64_t bytes, const std::filesystem::path& path);

/// The first `bytes` of `file`, not 0, as memory to be filled; kept from forked children and from core dumps. All of
/// them must be reserved, or a thread that fills them may be sent SIGBUS. Null where the system refuses to map them:
/// `refusal` says why.
[[nodiscard]] std::shared_ptr<const std::span<std::byte>> map_to_fill(const FileHandle& file,
                                                                      std::uint64_t bytes,
                                                                      std::string& refusal);

}  // namespace cairn::io
