// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/staging/pieces.hpp"

#include "async/internal/event.hpp"
#include "async/internal/semaphore.hpp"
#include "core/save_job.hpp"
#include "io/internal/durable_file.hpp"
#include "staging/internal/buffer_pool.hpp"
#include "staging/internal/device_pieces.hpp"

namespace cairn::core {

/// One file on its way from pieces in memory to the disk, in runs of one staging buffer each.
///
/// With Snapshot::copy, `stage` copies run after run into buffers; each full buffer is written as soon as it is
/// there, then hashed, then given back. Hashing waits until the copying is over, since it would slow down the
/// caller; when buffers run out it begins at once, since it then frees them. What is nobody's but the save's
/// (headers, snapshots on devices) is not copied for the caller to go on: it is added before its run is written.
/// A file that is opened in the blocking phase is finished when `finish` is called, or before that when descriptors
/// run out: they would else all be held by files whose handlers wait for the end of one that cannot be opened.
/// Otherwise `finish` opens the file, and writes runs straight from the caller's memory where they are aligned, and through a buffer
/// where not; also those runs that hold nothing of the caller's.
/// Threads: coroutines on the job's strand; only copies and hashes run elsewhere.
class StagedFile : public std::enable_shared_from_this<StagedFile> {
 public:
  StagedFile(std::shared_ptr<SaveJob> job, std::string relative, std::vector<SourcePiece> pieces,
             std::uint64_t file_bytes);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  /// The blocking phase; afterwards nothing of the caller's is read any more (with Snapshot::copy).
  static Awaitable<> stage(std::shared_ptr<StagedFile> self);
  /// The background phase: done when the file is durable and hashed.
  static Background<> finish(std::shared_ptr<StagedFile> self);

 private:
  static Awaitable<> open(std::shared_ptr<StagedFile> self);
  static Awaitable<> finish_when_asked(std::shared_ptr<StagedFile> self);
  /// Writes what is left, syncs and closes the file.
  static Awaitable<> complete(std::shared_ptr<StagedFile> self);
  static Awaitable<> take_snapshots(std::shared_ptr<StagedFile> self);
  static Awaitable<> copy_lane(std::shared_ptr<StagedFile> self);
  static Awaitable<> write_staged(std::shared_ptr<StagedFile> self, std::uint64_t run,
                                  staging::Buffer buffer);
  static Awaitable<> borrow_lane(std::shared_ptr<StagedFile> self);
  static Awaitable<> write_run(std::shared_ptr<StagedFile> self, std::uint64_t run,
                               std::span<const std::byte> data);
  static Awaitable<> hash_run(std::shared_ptr<StagedFile> self, std::uint64_t run,
                              std::span<const std::byte> data);

  [[nodiscard]] std::uint64_t offset(std::uint64_t run) const { return run * staging::kBufferBytes; }
  [[nodiscard]] std::size_t descriptors() const;
  [[nodiscard]] std::size_t run_bytes(std::uint64_t run) const;
  [[nodiscard]] std::uint64_t bytes_of(std::span<const std::uint64_t> runs) const;
  /// Decides what is copied while the caller waits.
  void divide();
  [[nodiscard]] std::vector<bool> runs_of(std::span<const SourcePiece> pieces) const;
  void fill(std::span<const std::uint64_t> runs, std::span<const staging::Buffer> buffers) const;
  /// Gathers a run of what may be the caller's, with zeros where there is nothing.
  void fill_borrowed(std::uint64_t run, std::span<std::byte> data) const;
  void hash(std::uint64_t run, std::span<const std::byte> data);
  void end_run(std::exception_ptr failure);
  /// Ends what began with ++users_.
  void leave_file() noexcept;
  /// Closes the file, if it is open, and gives its descriptors to others. While nobody uses it.
  void let_go() noexcept;

  std::shared_ptr<SaveJob> job_;
  std::string relative_;
  std::vector<SourcePiece> pieces_;   // What the background phase reads.
  std::vector<SourcePiece> callers_;  // What is copied while the caller waits.
  DeviceSnapshots snapshots_;         // Refer to pieces.
  std::uint64_t file_bytes_;
  std::uint64_t runs_;
  std::vector<bool> has_pieces_;      // Whether a run has bytes that the background phase reads.
  std::vector<std::uint64_t> now_;    // Runs of the blocking phase.
  std::vector<std::uint64_t> later_;  // Runs of the background phase.
  std::size_t next_ = 0;              // Of one, then of the other.
  std::uint64_t ended_runs_ = 0;
  std::vector<std::uint64_t> hashes_;
  async::Permit place_;  // Of the file's descriptors; goes after it.
  std::optional<io::DurableFile> file_;
  async::Event opened_;
  async::Event may_finish_;  // The handler asks for it, or somebody needs the descriptors.
  async::Event finished_;
  async::Event may_hash_;
  async::Event written_;     // All runs are written and hashed.
  std::size_t users_ = 0;    // Of file_: who opens it, and staged runs on their way to it.
  bool has_failed_ = false;  // It does not come to its end.
};

}  // namespace cairn::core
