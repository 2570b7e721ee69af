// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/async/semaphore.hpp"
#include "cairn/io/chunk_hash.hpp"
#include "cairn/io/file.hpp"
#include "cairn/staging/pieces.hpp"

#include "core/load_job.hpp"

namespace cairn::core {

/// Reads ranges of one file to where they belong, and verifies them on the way.
///
/// The ranges are widened to whole chunks (a hash covers a whole chunk) and read in runs of one staging buffer
/// at most, many at a time. A run that belongs wholly to one aligned place in memory is read straight there.
/// Where a file or its disk takes no direct reads, which some say only when one is made, they go through the cache.
/// A file that is in the page cache already is copied from it by several threads; else the cache is passed by.
/// Threads: coroutines on the job's strand; copies and hashes run elsewhere.
class RangeReader {
 public:
  RangeReader(std::shared_ptr<LoadJob> job, std::string relative, std::vector<DestinationPiece> pieces);

  static Background<> read(std::shared_ptr<RangeReader> self);

 private:
  struct Run {
    std::uint64_t offset_bytes;
    std::size_t bytes;
  };

  static Awaitable<> lane(std::shared_ptr<RangeReader> self);
  static Awaitable<> read_through_cache(std::shared_ptr<RangeReader> self, Run run);
  static Awaitable<> read_into_place(std::shared_ptr<RangeReader> self, Run run, std::byte* place);
  static Awaitable<> read_through_buffer(std::shared_ptr<RangeReader> self, Run run);

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
  [[nodiscard]] bool can_read_direct(const void* data, Run run) const;
  [[nodiscard]] std::filesystem::path path() const;

  std::shared_ptr<LoadJob> job_;
  std::string relative_;
  std::vector<DestinationPiece> pieces_;
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
