// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cairn/async/awaitable.hpp"

#include "io/internal/direct.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/file.hpp"

namespace cairn::io {

struct DurableFileOptions {
  DurableFileOptions() = default;

  /// Bytes to reserve first, so that a full disk shows before any work; may be wrong. 0: nothing is
  /// reserved.
  std::uint64_t expected_bytes = 0;
  std::uint32_t mode = 0666;
  /// Write past the page cache where the file system can. Files below `min_direct_bytes` never do.
  bool use_direct = true;
  std::uint64_t min_direct_bytes = std::uint64_t{256} << 10;
};

/// A new file that is written in pieces, in any order, and is durable once `finish` is done.
///
/// Pieces that are aligned in memory and in the file go past the page cache (O_DIRECT), the rest
/// through it. A file whose write or sync failed is poisoned: it is never synced again and `finish`
/// refuses it. What a dropped DurableFile wrote stays where it is; the staged directory removes it.
/// Threads: `write` may be called concurrently for ranges that do not overlap.
class DurableFile {
 public:
  /// Creates `relative` below `directory`. Blocks.
  ///
  /// Ownership: `engine` must outlive the file and its tasks; `directory` need not.
  /// Errors:    OS errors pass through: EEXIST, ENOSPC, EDQUOT, EFBIG.
  static DurableFile create(Engine& engine, const Directory& directory, std::string_view relative,
                            DurableFileOptions options = {});

  [[nodiscard]] const std::filesystem::path& path() const noexcept;
  /// Returns whether aligned pieces go past the page cache.
  [[nodiscard]] bool is_direct() const noexcept;
  /// Why they do not, though it was asked for; empty when they do, or it was not.
  [[nodiscard]] std::string why_not_direct() const;
  /// Returns whether all of this piece would: pointer, size and offset are multiples of `kDirectBytes`.
  [[nodiscard]] bool can_write_direct(const void* data, std::size_t size,
                                      std::uint64_t offset) const noexcept;
  /// Bytes that went past the page cache so far.
  [[nodiscard]] std::uint64_t direct_bytes() const noexcept;

  /// Writes `data` at `offset`; it may reach beyond the final size (padding for O_DIRECT).
  ///
  /// Ownership: `data` must stay valid until the returned task has finished.
  /// Errors:    as `write_exact`; the file is poisoned then.
  [[nodiscard]] Background<> write(std::uint64_t offset, std::span<const std::byte> data);

  /// Cuts or extends the file to `final_bytes`, makes its contents durable and closes it.
  /// Call it once, after every `write` has finished. The file's name becomes durable with its
  /// directory.
  ///
  /// Errors: Errc::io_failure when the file is poisoned; Errc::closed when called twice; OS errors
  /// pass through.
  [[nodiscard]] Background<> finish(std::uint64_t final_bytes);

 private:
  struct State;
  explicit DurableFile(std::shared_ptr<State> state);
  static Background<> run_write(std::shared_ptr<State> state, std::uint64_t offset,
                                std::span<const std::byte> data);
  static Background<> run_finish(std::shared_ptr<State> state, std::uint64_t final_bytes);

  std::shared_ptr<State> state_;
};

}  // namespace cairn::io
