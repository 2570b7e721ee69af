// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/staging/pieces.hpp"

#include "async/internal/byte_budget.hpp"
#include "async/internal/semaphore.hpp"
#include "core/load_job.hpp"
#include "io/internal/chunk_hash.hpp"
#include "io/internal/file.hpp"
#include "staging/internal/buffer_pool.hpp"

namespace cairn::core {

/// Reads ranges of one file to where they belong, and verifies them on the way.
///
/// Where there are hashes the ranges are widened to whole chunks, because a hash covers a whole chunk. They are read in
/// runs of one staging buffer at most, many at a time. A run that belongs wholly to one place in memory is read
/// straight there, if it is aligned or is read through the page cache anyway; a small one that belongs to several takes
/// as much memory as it has bytes; all others take a staging buffer.
/// Where a file or its disk takes no direct reads, which some say only when one is made, they go through the cache.
/// A file that is in the page cache already is copied from it by several threads; else the cache is passed by.
/// Threads: coroutines on the job's strand; copies and hashes run elsewhere.
class RangeReader {
 public:
  RangeReader(std::shared_ptr<LoadJob> job, std::string relative, std::vector<DestinationPiece> pieces);
  ~RangeReader();
  RangeReader(const RangeReader&) = delete;
  RangeReader& operator=(const RangeReader&) = delete;

  static Background<> read(std::shared_ptr<RangeReader> self);

 private:
  struct Run {
    std::uint64_t offset_bytes;
    std::size_t bytes;
  };

  struct Scratch {
    Scratch() = default;

    std::span<std::byte> bytes;
    staging::Buffer buffer;  // Either this,
    async::ByteLease lease;  // or these.
    std::unique_ptr<std::byte[]> memory;
  };

  static Awaitable<> lane(std::shared_ptr<RangeReader> self);
  static Awaitable<> read_through_cache(std::shared_ptr<RangeReader> self, Run run);
  static Awaitable<> read_into_place(std::shared_ptr<RangeReader> self, Run run, std::byte* place);
  static Awaitable<> read_through_buffer(std::shared_ptr<RangeReader> self, Run run);
  /// Memory for a run that is read before it goes where it belongs.
  static Awaitable<Scratch> acquire_scratch(std::shared_ptr<RangeReader> self, std::size_t bytes);

  /// Reads a run to `data`, past the page cache if it can.
  static Awaitable<> read_run(std::shared_ptr<RangeReader> self, Run run, std::span<std::byte> data);

  void open();
  /// Opens the file a second time, past the page cache, or notes why not.
  void open_direct();
  void close();
  void refuse_direct(const std::string& why);
  void plan();
  void deliver(Run run, std::span<const std::byte> data) const;
  void verify(Run run, std::span<const std::byte> data) const;
  /// Whether a second descriptor, past the page cache, is worth its open.
  [[nodiscard]] bool wants_direct(std::uint64_t file_bytes) const;
  [[nodiscard]] bool is_aligned(Run run) const;
  [[nodiscard]] bool can_read_direct(const void* data, Run run) const;
  [[nodiscard]] std::filesystem::path path() const;

  std::shared_ptr<LoadJob> job_;
  std::string relative_;
  std::vector<DestinationPiece> pieces_;
  std::uint64_t asked_bytes_ = 0;
  bool has_devices_ = false;
  std::uint64_t file_bytes_ = 0;
  std::optional<io::FileDigest> digest_;
  async::Permit place_;  // Of the descriptors below; goes after them.
  io::FileHandle buffered_;
  io::FileHandle direct_;
  bool is_direct_ = false;  // Whether `direct_` serves.
  bool is_cached_ = false;
  std::vector<Run> runs_;
  std::size_t next_run_ = 0;
};

}  // namespace cairn::core
