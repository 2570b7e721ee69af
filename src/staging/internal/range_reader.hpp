// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/staging/pieces.hpp"

#include "async/internal/semaphore.hpp"
#include "staging/internal/buffer_pool.hpp"
#include "staging/internal/checked_file.hpp"
#include "staging/internal/data_plane.hpp"
#include "staging/internal/read_runs.hpp"

namespace cairn::staging {

/// Reads ranges of one file to where they belong, and verifies them on the way.
///
/// Where there are hashes the ranges are widened to whole chunks, because a hash covers a whole chunk. They are read in
/// runs of one staging buffer at most, many at a time. A run that belongs wholly to one place in memory is read
/// straight there, if it is aligned or is read through the page cache anyway; one that belongs to several goes through
/// memory that it is lent, where somebody lends it some. Else a small one takes as much memory as it has bytes, and all
/// others take a staging buffer.
/// A file that is in memory or in the page cache already is copied from there by several threads; else the cache is
/// passed by. Checks of pieces are shown all that is read.
/// Ownership: the frame that awaits `read` owns the reader.
/// Threads:   coroutines on one strand; copies and hashes run elsewhere.
class RangeReader {
 public:
  /// Lends a run memory, aligned to pages, to be read into before it goes where it belongs; nothing: it has to take
  /// some itself. The memory is given back with what is passed on.
  using Lend = std::function<Awaitable<std::span<std::byte>>(Run run)>;
  /// Is given each run when it has been read and verified, and returns when its bytes may go.
  using PassOn = std::function<Awaitable<>(Run run, std::span<const std::byte> data)>;

  /// The plane outlives the reader.
  RangeReader(DataPlane& plane, FileToRead file, std::vector<DestinationPiece> pieces);
  /// Reads these runs and passes each on; of a file with hashes they begin at chunks and end there or with the file. Of
  /// the pieces it serves what lies in them. What `lend` and `pass_on` refer to outlives the reader.
  RangeReader(DataPlane& plane, FileToRead file, std::vector<DestinationPiece> pieces, std::vector<Run> runs,
              Lend lend, PassOn pass_on);

  /// Errors: Errc::checksum_mismatch naming the file, the chunk and its range; Errc::io_failure when the file ends
  ///         before; Errc::invalid_argument when the pieces overlap, or reach beyond the file; OS errors pass
  ///         through.
  ///
  /// Threads: runs on the plane's strand, wherever it is awaited.
  Awaitable<> read();

 private:
  struct Scratch {
    Scratch() = default;

    std::span<std::byte> bytes;
    Buffer buffer;        // Either this,
    async::Permit lease;  // or these; nothing where it was lent.
    std::unique_ptr<std::byte[]> memory;
  };

  /// Several share the runs of the file.
  Awaitable<> read_here();
  Awaitable<> read_runs();
  Awaitable<> read_in_memory(Run run);
  Awaitable<> read_through_cache(Run run, std::byte* place);
  /// Reads a small run of a cached file, and those that follow as long as they are small.
  Awaitable<> read_small_runs(Run first);
  Awaitable<> read_into_place(Run run, std::byte* place);
  Awaitable<> read_through_buffer(Run run);
  // outlives: `data` is the caller's, who awaits this
  Awaitable<> pass_on(Run run, std::span<const std::byte> data);
  /// Memory for a run that is read before it goes where it belongs.
  Awaitable<Scratch> acquire_scratch(Run run);

  void plan();
  void deliver(Run run, std::span<const std::byte> data) const;

  DataPlane& plane_;
  std::vector<DestinationPiece> pieces_;
  const bool has_devices_;
  const bool has_checks_;
  CheckedFile file_;
  std::vector<Run> runs_;  // Empty until they are planned, unless they were given.
  const Lend lend_;        // Empty: nobody has memory for them.
  const PassOn pass_on_;   // Empty: they are nobody else's.
  std::size_t next_run_ = 0;
};

}  // namespace cairn::staging
