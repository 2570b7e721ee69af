// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cairn/async/awaitable.hpp"

#include "async/internal/semaphore.hpp"
#include "io/internal/chunk_hash.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/stored_file.hpp"
#include "staging/internal/data_plane.hpp"

namespace cairn::staging {

/// A file that is to be read.
struct FileToRead {
  std::string name;            ///< Relative to the checkpoint.
  std::filesystem::path path;  ///< For errors.
  std::string origin;          ///< Who wrote it, and why so, behind what errors say; may be empty.
  std::uint64_t size_bytes = 0;
  /// Opens it, past the page cache where that is worth it and helps. Blocks.
  std::function<std::unique_ptr<io::StoredFile>(io::Engine& engine, bool use_direct)> open;
  /// What it must hash to; blocks. Empty, or nothing: that is not verified.
  std::function<std::optional<io::FileDigest>()> digest;
};

/// A file that is read in ranges, and verified: every range that is read of a checkpoint goes through here.
///
/// A large file is read past the page cache, when enough of it is asked for.
/// Threads: coroutines on one strand; `read_now` and `verify` may be called from any thread once it is open.
class CheckedFile {
 public:
  /// `asked_bytes` is about how much will be read. The plane outlives the file.
  CheckedFile(DataPlane& plane, FileToRead file, std::uint64_t asked_bytes);
  /// Closes it later when it is still open: somebody did not come to the end.
  ~CheckedFile();
  CheckedFile(const CheckedFile&) = delete;
  CheckedFile& operator=(const CheckedFile&) = delete;

  /// Returns how many descriptors it needs at most.
  [[nodiscard]] std::size_t descriptors() const noexcept { return wants_direct() ? 2 : 1; }
  /// Waits until its descriptors may be opened.
  Awaitable<> acquire_descriptors();
  /// Opens it. Blocks.
  void open();
  void close();

  [[nodiscard]] const std::string& name() const noexcept { return file_.name; }
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return file_.size_bytes; }
  [[nodiscard]] bool is_verified() const noexcept { return digest_.has_value(); }
  /// Returns whether these are the hashes that the chunks from `first` on must have; true where nobody knows.
  [[nodiscard]] bool has_hashes(std::uint64_t first, std::span<const std::uint64_t> hashes) const;
  /// As these of the stored file, while it is open.
  [[nodiscard]] std::span<const std::byte> memory() const noexcept { return stored_->memory(); }
  [[nodiscard]] bool is_cached() const noexcept { return stored_->is_cached(); }
  /// Returns whether it is read past the page cache.
  [[nodiscard]] bool is_direct() const noexcept { return stored_->unit_bytes() > 1; }

  /// Returns what a range is to be a multiple of, but for the end of the file: a hash covers a whole chunk,
  /// and a direct read whole pages.
  [[nodiscard]] std::uint64_t unit_bytes() const noexcept;
  /// Returns whether a range would be read past the page cache to other memory, which is aligned for that.
  [[nodiscard]] bool needs_buffer(std::uint64_t offset_bytes, std::span<const std::byte> data) const noexcept;

  /// Reads a range through the engine.
  // outlives: `data` is the caller's, who awaits this
  Awaitable<> read(std::uint64_t offset_bytes, std::span<std::byte> data);
  /// Reads a range here and now.
  void read_now(std::uint64_t offset_bytes, std::span<std::byte> data) const;
  /// Compares a range with what it must hash to, if that is known.
  ///
  /// Errors: Errc::checksum_mismatch naming the file, the chunk and its range.
  void verify(std::uint64_t offset_bytes, std::span<const std::byte> data) const;

 private:
  /// Returns whether a second descriptor, past the page cache, is worth its open.
  [[nodiscard]] bool wants_direct() const noexcept;

  DataPlane& plane_;
  const FileToRead file_;
  const std::uint64_t asked_bytes_;
  std::optional<io::FileDigest> digest_;
  async::Permit place_;  // Of its descriptors; goes after them.
  std::unique_ptr<io::StoredFile> stored_;
};

}  // namespace cairn::staging
