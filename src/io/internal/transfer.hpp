// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "cairn/async/awaitable.hpp"

#include "io/internal/engine.hpp"

namespace cairn::io {

/// Most bytes of one request; longer transfers are cut and their pieces run side by side.
inline constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

/// Writes all of `data` at `offset`; `path` is for errors only.
///
/// Short writes are continued (after a short O_DIRECT write from the last boundary of `alignment_bytes`); EINTR and
/// EAGAIN are tried again, a bounded number of times.
/// Ownership: `data`, `fd` and `engine` must stay valid until the returned task has finished.
/// Cancel:    a transfer that has begun runs to its end first, because the kernel owns the memory.
/// Errors:    Errc::io_failure when the kernel keeps writing nothing; OS errors pass through.
[[nodiscard]] Background<> write_exact(Engine& engine, int fd, std::span<const std::byte> data,
                                       std::uint64_t offset, std::filesystem::path path,
                                       std::size_t alignment_bytes = 1);

/// Reads `data.size()` bytes at `offset`; otherwise as `write_exact`.
///
/// Errors: Errc::io_failure when the file ends before; OS errors pass through.
[[nodiscard]] Background<> read_exact(Engine& engine, int fd, std::span<std::byte> data, std::uint64_t offset,
                                      std::filesystem::path path, std::size_t alignment_bytes = 1);

/// Makes what was written to `fd` durable (fdatasync). Asked once only: a failed sync is never
/// repeated, because the kernel has already forgotten which pages it failed to write.
///
/// Errors: OS errors pass through.
[[nodiscard]] Background<> sync_data(Engine& engine, int fd, std::filesystem::path path);

}  // namespace cairn::io
