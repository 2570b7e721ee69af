// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "cairn/async/awaitable.hpp"

#include "io/internal/engine.hpp"
#include "io/internal/file.hpp"
#include "io/internal/stored_file.hpp"

namespace cairn::io {

/// A file on a disk that is read, past the page cache where it is not in that; or one on a tmpfs.
///
/// Reads go through the cache if the file or its disk takes no direct ones, which some say only when one is made.
class DiskFile final : public StoredFile {
 public:
  /// Opens the file for reading, with these flags more. Blocks.
  using Open = std::function<FileHandle(int flags)>;

  /// Opens it, with `use_direct` a second time to pass the cache. Blocks. `path` is for errors only. `is_in_memory`: it
  /// lies on a tmpfs, which does not say that it is its own cache.
  ///
  /// Ownership: `engine` must outlive the file; `open` need not.
  /// Errors:    those of `open`; of the second time only those that are not the system's.
  DiskFile(Engine& engine, std::filesystem::path path, std::uint64_t size_bytes, bool use_direct,
           const Open& open, bool is_in_memory = false);

  [[nodiscard]] bool is_cached() const noexcept override { return is_cached_; }
  [[nodiscard]] std::size_t unit_bytes() const noexcept override;
  void read_now(std::uint64_t offset, std::span<std::byte> data) const override;
  [[nodiscard]] Background<> read(std::uint64_t offset, std::span<std::byte> data) override;
  [[nodiscard]] std::uint64_t direct_bytes() const noexcept override { return direct_bytes_; }
  [[nodiscard]] std::string why_not_direct() const override { return refusal_; }

 private:
  void open_direct(const Open& open);

  Engine& engine_;
  const std::filesystem::path path_;
  const FileHandle buffered_;
  const bool is_cached_;
  FileHandle direct_;
  bool is_direct_ = false;  // `direct_` serves.
  std::string refusal_;     // Why it does not.
  std::uint64_t direct_bytes_ = 0;
};

}  // namespace cairn::io
