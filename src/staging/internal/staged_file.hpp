// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cairn/staging/pieces.hpp"

#include "async/internal/event.hpp"
#include "async/internal/semaphore.hpp"
#include "io/internal/chunk_hash.hpp"
#include "io/internal/new_file.hpp"
#include "staging/internal/checked_file.hpp"
#include "staging/internal/data_plane.hpp"
#include "staging/internal/device_pieces.hpp"
#include "staging/internal/run_memory.hpp"

namespace cairn::staging {

/// A file that is to be written.
struct FileToWrite {
  std::string name;  ///< Relative to the checkpoint.
  std::uint64_t size_bytes = 0;
  std::vector<SourcePiece> pieces;
  /// Instead of pieces: the file that this one is a copy of, of the same size, which `create` opens. Null: pieces.
  std::unique_ptr<CheckedFile> original;
  Snapshot snapshot = Snapshot::copy;    ///< Of pieces that say nothing themselves.
  io::Medium medium = io::Medium::disk;  ///< Where it is made: in memory it may be filled in place.
  async::Event may_create;               ///< Its directory is there; fails when that could not be made.
  std::function<std::unique_ptr<io::NewFile>(const io::NewFileOptions&)> create;  ///< Blocks.
};

/// One file on its way from pieces in memory to the disk, in runs of one staging buffer each; a file that is smaller
/// than a buffer shares one with others.
///
/// With Snapshot::copy, of the file or of one of its pieces, `stage` copies run after run into buffers; each full
/// buffer is written as soon as it is there, then hashed, then given back. Hashing waits until the copying is over,
/// since it would slow down the caller; when buffers run out it begins at once, since it then frees them. What is
/// nobody's but the save's (headers, snapshots on devices), or what somebody keeps unchanged, is not copied for the
/// caller to go on: it is added before its run is written. A file that is opened in the blocking phase is finished
/// when `finish` is called, or before that when descriptors run out: they would else all be held by files whose
/// handlers wait for the end of one that cannot be opened. Otherwise `finish` opens the file, and writes runs
/// straight from the caller's memory where they are aligned, and through a buffer where not; also those runs that
/// hold nothing of the caller's.
///
/// A file that lies in memory, and says so (io::NewFile::memory), is filled there: it is opened before anything is
/// copied, its runs need no buffers, and writing them does nothing. So it is copied once, and needs no descriptor then.
///
/// The runs of a copy are read from the file that it is a copy of, hashed once, and compared with its hashes before
/// they are written; what lies in memory is written straight from there, then hashed and compared.
/// Ownership: the tasks of the phases, and the helpers, keep the file. What they await is a member of it.
/// Threads:   coroutines on the plane's strand, wherever they are awaited, so that a permit or a buffer is given back
///            when the disk has answered, whatever that one does; copies and hashes run on threads of their own.
class StagedFile : public std::enable_shared_from_this<StagedFile> {
 public:
  /// Errors: Errc::invalid_argument when the pieces overlap, or reach beyond the file.
  StagedFile(std::shared_ptr<DataPlane> plane, FileToWrite file);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  /// The blocking phase; afterwards nothing of the caller's is read any more (with Snapshot::copy).
  static Awaitable<> stage(std::shared_ptr<StagedFile> self);
  /// The background phase: done when the file is durable; returns what it must hash to.
  static Background<io::FileDigest> finish(std::shared_ptr<StagedFile> self);

 private:
  /// Bytes of a run, in their order. What they lie in is kept by who awaits what uses them.
  using Parts = std::vector<std::span<const std::byte>>;

  static Awaitable<> stage_here(std::shared_ptr<StagedFile> self);
  static Awaitable<> finish_here(std::shared_ptr<StagedFile> self);
  static Awaitable<> open(std::shared_ptr<StagedFile> self);
  static Awaitable<> finish_when_asked(std::shared_ptr<StagedFile> self);
  static Awaitable<> write_staged(std::shared_ptr<StagedFile> self, std::uint64_t run, RunMemory memory);

  /// Writes what is left, syncs and closes the file.
  Awaitable<> complete();
  Awaitable<> take_snapshots();
  /// Several of each share the runs of the file.
  Awaitable<> copy_runs();
  Awaitable<> write_runs();
  Awaitable<> write_borrowed(std::uint64_t run);
  Awaitable<> write_copied(std::uint64_t run);
  Awaitable<> write_run(std::uint64_t run, Parts data);
  Awaitable<> hash_run(std::uint64_t run, Parts data);
  /// Returns where a run is gathered: the file's own memory, where it has that, else a buffer.
  Awaitable<RunMemory> acquire_memory(std::uint64_t run);

  /// Returns whether the blocking phase copies anything.
  [[nodiscard]] bool is_copied() const noexcept { return is_copied_; }
  /// Returns whether it is filled where it lies, if that can be mapped.
  [[nodiscard]] bool may_fill_in_place() const noexcept;
  /// Returns whether a piece must be read before the caller goes on.
  [[nodiscard]] bool is_callers_memory(const SourcePiece& piece) const;
  [[nodiscard]] std::uint64_t offset(std::uint64_t run) const { return run * kBufferBytes; }
  [[nodiscard]] std::size_t descriptors() const;
  [[nodiscard]] std::size_t run_bytes(std::uint64_t run) const;
  /// The memory that each run needs.
  [[nodiscard]] std::size_t memory_bytes() const;
  [[nodiscard]] std::uint64_t bytes_of(std::span<const std::uint64_t> runs) const;
  /// Decides what is copied while the caller waits.
  void divide();
  [[nodiscard]] std::vector<bool> runs_of(std::span<const SourcePiece> pieces) const;
  /// The same where there is no need to wait; else nothing.
  [[nodiscard]] RunMemory try_acquire_memory(std::uint64_t run) const;
  /// Returns memory for `first` and as many of the runs behind it as there is memory for, or which are worth a visit.
  [[nodiscard]] std::vector<RunMemory> try_acquire_more(RunMemory first, std::size_t most) const;
  /// Returns whether it is filled where it lies.
  [[nodiscard]] bool is_in_place() const noexcept { return file_ && !file_->memory().empty(); }
  void fill(std::span<const std::uint64_t> runs, std::span<const RunMemory> memory);
  /// Gathers a run of what may be the caller's, with zeros where there is nothing.
  void fill_borrowed(std::uint64_t run, const RunMemory& memory) const;
  void hash(std::uint64_t run, const Parts& data);
  /// Hashes a run of a copy.
  ///
  /// Errors: Errc::checksum_mismatch, naming file and chunk.
  void hash_copied(std::uint64_t run, const Parts& data);
  void end_run(std::exception_ptr failure);
  /// Ends what began with ++users_.
  void leave_file() noexcept;
  /// Closes the file, if it is open, and gives its descriptors to others. While nobody uses it.
  void let_go() noexcept;

  const std::shared_ptr<DataPlane> plane_;
  const std::string name_;
  const std::uint64_t file_bytes_;
  const Snapshot snapshot_;
  const bool is_copied_;
  const bool has_devices_;  // Some of its bytes are on one.
  const io::Medium medium_;
  bool has_promised_ = false;  // Whether somebody keeps pieces unchanged, beside what is copied.
  const async::Event may_create_;
  const std::function<std::unique_ptr<io::NewFile>(const io::NewFileOptions&)> create_;
  const std::unique_ptr<CheckedFile> original_;
  std::vector<SourcePiece> pieces_;   // What the background phase reads.
  std::vector<SourcePiece> callers_;  // What is copied while the caller waits.
  DeviceSnapshots snapshots_;         // Refer to pieces.
  const std::uint64_t runs_;
  std::vector<bool> has_pieces_;      // Whether a run has bytes that the background phase reads.
  std::vector<std::uint64_t> now_;    // Runs of the blocking phase.
  std::vector<std::uint64_t> later_;  // Runs of the background phase.
  std::size_t next_ = 0;              // Of one, then of the other.
  std::uint64_t ended_runs_ = 0;
  std::vector<std::uint64_t> hashes_;
  async::Permit place_;  // Of the file's descriptors; goes after it.
  std::unique_ptr<io::NewFile> file_;
  async::Event opened_;
  async::Event may_finish_;  // The handler asks for it, or somebody needs the descriptors.
  async::Event finished_;
  async::Event may_hash_;
  async::Event written_;     // All runs are written and hashed.
  std::size_t users_ = 0;    // Of file_: who opens it, and staged runs on their way to it.
  bool has_failed_ = false;  // It does not come to its end.
};

}  // namespace cairn::staging
