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

#include "io/internal/engine.hpp"
#include "io/internal/file.hpp"
#include "io/internal/new_file.hpp"

namespace cairn::io {

/// A new file on a disk, or on a tmpfs.
///
/// On a tmpfs it may be mapped, and is then filled where it lies: all of it is reserved before, so that memory that is
/// not there is an error of `create`. It has no descriptor then, and the size that was expected. Where the system
/// refuses to map it, it is written, and `why_not_direct` says so.
/// Pieces that are aligned in memory and in the file go past the page cache (O_DIRECT), the rest
/// through it. A file whose write or sync failed is poisoned: it is never synced again and `finish`
/// refuses it. What a dropped DurableFile wrote stays where it is; the staged directory removes it.
class DurableFile final : public NewFile {
 public:
  /// Creates `relative` below `directory`. Blocks.
  ///
  /// Ownership: `engine` must outlive the file and its tasks; `directory` need not.
  /// Errors:    OS errors pass through: EEXIST, ENOSPC, EDQUOT, EFBIG.
  static DurableFile create(Engine& engine, const Directory& directory, std::string_view relative,
                            NewFileOptions options = {});

  /// Makes it of a file that is there, which has just the bytes that are expected and blocks for all of them, to be
  /// filled in place. `path` is for messages.
  static DurableFile reuse(Engine& engine, FileHandle file, std::filesystem::path path,
                           const NewFileOptions& options);

  /// Returns whether aligned pieces go past the page cache.
  [[nodiscard]] bool is_direct() const noexcept;
  [[nodiscard]] std::span<std::byte> memory() const noexcept override;
  [[nodiscard]] bool can_write_direct(const void* data, std::size_t size,
                                      std::uint64_t offset) const noexcept override;
  [[nodiscard]] Background<> write(std::uint64_t offset, std::span<const std::byte> data) override;
  [[nodiscard]] Background<> finish(std::uint64_t final_bytes) override;
  [[nodiscard]] std::uint64_t direct_bytes() const noexcept override;
  [[nodiscard]] std::string why_not_direct() const override;

 private:
  struct State;
  explicit DurableFile(std::shared_ptr<State> state);
  /// Maps it, and closes it if that can be.
  static void fill_in_place(State& state, const NewFileOptions& options);
  /// Puts data in its place in memory, unless that is where it lies.
  ///
  /// Errors: EFBIG.
  static void put(const State& state, std::uint64_t offset, std::span<const std::byte> data);
  static Background<> run_write(std::shared_ptr<State> state, std::uint64_t offset,
                                std::span<const std::byte> data);
  static Background<> run_finish(std::shared_ptr<State> state, std::uint64_t final_bytes);

  std::shared_ptr<State> state_;
};

}  // namespace cairn::io
