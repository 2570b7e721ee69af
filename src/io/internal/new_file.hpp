// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "cairn/async/awaitable.hpp"

#include "io/internal/memory_hook.hpp"

namespace cairn::io {

class MappedFiles;

/// Says where new files lie.
enum class Medium : std::uint8_t {
  disk,
  memory,       ///< On a tmpfs.
  kept_memory,  ///< On one, and files of earlier saves that are mapped already become those of the next.
};

struct NewFileOptions {
  NewFileOptions() = default;

  /// Bytes to reserve first, so that a full disk shows before any work; may be wrong. 0: nothing is
  /// reserved.
  std::uint64_t expected_bytes = 0;
  std::uint32_t mode = 0666;
  /// Write past the page cache where the file system can. Files below `min_direct_bytes` never do.
  bool use_direct = true;
  std::uint64_t min_direct_bytes = std::uint64_t{256} << 10;
  /// Who writes it fills `memory` instead, where the file has that. Its place decides whether it does.
  bool is_filled_in_place = false;
  /// Keeps what it is mapped to. Null: it is mapped for itself.
  MappedFiles* mappings = nullptr;
  /// Pins what it is mapped to: devices copy into it. Null where none do.
  MemoryHook pin;
};

/// A new file of a checkpoint, which is written in pieces, in any order, and is as durable as its place can make it
/// once `finish` is done. `DurableFile` is the one on a disk.
///
/// Threads: `write` may be called concurrently for ranges that do not overlap.
class NewFile {
 public:
  virtual ~NewFile() = default;

  /// Returns the file's own bytes where they lie in memory: who fills them need not `write` them. Empty elsewhere.
  /// They stay there until `finish` has ended.
  [[nodiscard]] virtual std::span<std::byte> memory() const noexcept { return {}; }
  /// Returns whether all of this piece goes to the file without a copy: pointer, size and offset suit it.
  [[nodiscard]] virtual bool can_write_direct(const void* data, std::size_t size,
                                              std::uint64_t offset) const noexcept = 0;

  /// Writes `data` at `offset`; a piece that can be written direct may reach beyond the final size (padding).
  ///
  /// Ownership: `data` must stay valid until the returned task has finished.
  /// Errors:    OS errors pass through.
  [[nodiscard]] virtual Background<> write(std::uint64_t offset, std::span<const std::byte> data) = 0;
  /// Cuts or extends the file to `final_bytes`, makes its contents durable and closes it.
  /// Call it once, after every `write` has finished. The file's name becomes durable with its
  /// directory.
  ///
  /// Errors: Errc::io_failure when a `write` has failed; Errc::closed when called twice; OS errors pass through.
  [[nodiscard]] virtual Background<> finish(std::uint64_t final_bytes) = 0;

  /// Returns how many bytes went past the page cache so far.
  [[nodiscard]] virtual std::uint64_t direct_bytes() const noexcept { return 0; }
  /// Returns why none do, though that was asked for; empty when they do, or it was not.
  [[nodiscard]] virtual std::string why_not_direct() const { return {}; }

 protected:
  NewFile() = default;
  NewFile(NewFile&&) noexcept = default;
  NewFile& operator=(NewFile&&) noexcept = default;
};

}  // namespace cairn::io
