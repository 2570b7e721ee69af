// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "cairn/async/awaitable.hpp"

namespace cairn::io {

/// A file of a checkpoint that is read in ranges. `DiskFile` is the one on a disk.
///
/// Threads: coroutines on one strand; `read_now` may be called from any thread.
class StoredFile {
 public:
  virtual ~StoredFile() = default;
  StoredFile(const StoredFile&) = delete;
  StoredFile& operator=(const StoredFile&) = delete;

  /// Returns all of the file where it lies in memory: who reads it copies and hashes it there. Empty elsewhere.
  [[nodiscard]] virtual std::span<const std::byte> memory() const noexcept { return {}; }
  /// Returns whether `read_now` seems not to wait for a disk.
  [[nodiscard]] virtual bool is_cached() const noexcept = 0;
  /// Returns what offset, size and memory of a range are to be multiples of, so that `read` makes no copy of it.
  [[nodiscard]] virtual std::size_t unit_bytes() const noexcept { return 1; }

  /// Reads a range here and now.
  ///
  /// Errors: Errc::io_failure when the file ends before; OS errors pass through.
  virtual void read_now(std::uint64_t offset, std::span<std::byte> data) const = 0;
  /// Reads a range through the engine; otherwise as `read_now`.
  ///
  /// Ownership: the file and `data` must stay valid until the returned task has finished.
  [[nodiscard]] virtual Background<> read(std::uint64_t offset, std::span<std::byte> data) = 0;

  /// Returns how many bytes `read` has taken past the page cache so far.
  [[nodiscard]] virtual std::uint64_t direct_bytes() const noexcept { return 0; }
  /// Returns why it took none that way, though that was asked for; empty when it did, or it was not.
  [[nodiscard]] virtual std::string why_not_direct() const { return {}; }

 protected:
  StoredFile() = default;
};

}  // namespace cairn::io
