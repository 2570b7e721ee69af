// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/staged_file.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "cairn/async/awaitable.hpp"

#include "async/internal/suspend.hpp"
#include "base/internal/assert.hpp"
#include "base/internal/checked.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/direct.hpp"

namespace cairn::staging {
namespace {

/// Buffers filled in one visit of a worker thread: enough to make the visit cheap.
constexpr std::size_t kRunsAVisit = 8;

/// Blocks of a direct write; the file is cut to its size afterwards.
std::size_t padded(std::size_t bytes) {
  return round_up(bytes, io::kDirectBytes);
}

/// The first `bytes` of a run's memory.
template <class Byte>
std::vector<std::span<Byte>> first_of(const RunMemory& memory, std::size_t bytes) {
  std::vector<std::span<Byte>> parts;
  parts.reserve(memory.parts().size());
  for (const std::span<std::byte> part : memory.parts()) {
    const std::size_t size = std::min(part.size(), bytes);
    if (size != 0) {
      parts.push_back(part.first(size));
    }
    bytes -= size;
  }
  return parts;
}

bool lies_on_device(const SourcePiece& piece) {
  return piece.source != nullptr && piece.source->on_device().copier != nullptr;
}

}  // namespace

StagedFile::StagedFile(std::shared_ptr<DataPlane> plane, FileToWrite file)
    : plane_(std::move(plane)),
      name_(std::move(file.name)),
      file_bytes_(file.size_bytes),
      snapshot_(file.snapshot),
      is_copied_(snapshot_ == Snapshot::copy ||
                 std::any_of(file.pieces.begin(), file.pieces.end(),
                             [](const SourcePiece& piece) { return piece.snapshot == Snapshot::copy; })),
      has_devices_(std::any_of(file.pieces.begin(), file.pieces.end(), lies_on_device)),
      medium_(file.medium),
      may_create_(file.may_create),
      create_(std::move(file.create)),
      original_(std::move(file.original)),
      pieces_(std::move(file.pieces)),
      runs_(file_bytes_ / kBufferBytes + (file_bytes_ % kBufferBytes != 0 ? 1 : 0)),
      hashes_(io::chunk_count(file_bytes_)) {
  arrange(pieces_, file_bytes_);
  if (runs_ == 0) {
    written_.set();
  }
}

StagedFile::~StagedFile() {
  let_go();
}

bool StagedFile::may_fill_in_place() const noexcept {
  // To pin memory takes longer than to copy from a buffer that is pinned: it pays where the memory is kept.
  return medium_ == io::Medium::kept_memory || (medium_ == io::Medium::memory && !has_devices_);
}

bool StagedFile::is_callers_memory(const SourcePiece& piece) const {
  const bool is_copied = piece.snapshot.value_or(snapshot_) == Snapshot::copy;
  return is_copied && (piece.data != nullptr || !piece.source->is_lasting());
}

void StagedFile::let_go() noexcept {
  if (file_) {  // It has not come to its end.
    CAIRN_PROBE("staging.file_dropped_before_its_end");
    plane_->drop_later(std::pair(std::move(place_), std::move(file_)));
  }
  place_.release();
}

std::size_t StagedFile::descriptors() const {
  const std::size_t own =
      file_bytes_ >= io::NewFileOptions().min_direct_bytes ? 2 : 1;  // One more with O_DIRECT.
  return own + (original_ ? original_->descriptors() : 0);
}

std::size_t StagedFile::run_bytes(std::uint64_t run) const {
  CAIRN_ASSERT(run < runs_, "a run is one of the file");
  return static_cast<std::size_t>(std::min<std::uint64_t>(kBufferBytes, file_bytes_ - offset(run)));
}

std::size_t StagedFile::memory_bytes() const {
  return padded(static_cast<std::size_t>(std::min<std::uint64_t>(kBufferBytes, file_bytes_)));
}

std::uint64_t StagedFile::bytes_of(std::span<const std::uint64_t> runs) const {
  return std::accumulate(runs.begin(), runs.end(), std::uint64_t{0},
                         [this](std::uint64_t sum, std::uint64_t run) { return sum + run_bytes(run); });
}

std::vector<bool> StagedFile::runs_of(std::span<const SourcePiece> pieces) const {
  std::vector<bool> runs(runs_);
  for (const SourcePiece& piece : pieces) {
    const std::uint64_t end = piece.offset_bytes + piece.size_bytes;
    for (std::uint64_t run = piece.offset_bytes / kBufferBytes; offset(run) < end; ++run) {
      runs[run] = true;
    }
  }
  return runs;
}

void StagedFile::divide() {
  CAIRN_ASSERT(now_.empty() && later_.empty(), "a file is divided once");
  if (is_copied()) {
    std::vector<SourcePiece> own;
    callers_.reserve(pieces_.size());
    for (SourcePiece& piece : pieces_) {
      has_promised_ = has_promised_ || piece.snapshot.value_or(snapshot_) != Snapshot::copy;
      (is_callers_memory(piece) ? callers_ : own).push_back(std::move(piece));
    }
    pieces_ = std::move(own);
  }
  has_pieces_ = runs_of(pieces_);
  const std::vector<bool> is_callers = runs_of(callers_);
  for (std::uint64_t run = 0; run < runs_; ++run) {
    (is_callers[run] ? now_ : later_).push_back(run);
  }
}

Awaitable<> StagedFile::stage(std::shared_ptr<StagedFile> self) {
  // Here, because the current stream of a device is that of the calling thread.
  follow_programs(std::span<const SourcePiece>(self->pieces_));
  Executor strand = self->plane_->strand;
  co_await async::run_on(std::move(strand), stage_here(std::move(self)));
}

Awaitable<> StagedFile::stage_here(std::shared_ptr<StagedFile> self) {
  DataPlane& plane = *self->plane_;
  if (self->is_copied()) {
    self->place_ = co_await plane.files.acquire(self->descriptors());
    plane.helpers->spawn(open(self));
    co_await self->take_snapshots();
  }
  self->divide();
  if (self->may_fill_in_place() && !self->now_.empty()) {
    co_await self->opened_.wait();  // It is copied to where it lies; to make it there takes no time.
  }
  std::vector<Awaitable<>> sharers;
  for (std::size_t i = 0; i < std::min(plane.workers.size(), self->now_.size()); ++i) {
    sharers.push_back(self->copy_runs());
  }
  co_await async::when_all(std::move(sharers));
  CAIRN_ASSERT(self->next_ == self->now_.size(), "all runs of the blocking phase are copied before it ends");
  CAIRN_ASSERT(self->now_.size() + self->later_.size() == self->runs_,
               "each run is copied in one of the phases");
  self->next_ = 0;
  self->callers_.clear();  // The caller's memory is the caller's again.
  self->may_hash_.set();
  if (self->is_copied()) {
    plane.helpers->spawn(finish_when_asked(self));
    plane.files.set_when_wanted(self->may_finish_);
  }
}

Awaitable<> StagedFile::take_snapshots() {
  if (!has_devices_) {
    co_return;
  }
  std::function<void()> snapshot = [this] {
    const observe::WorkSpan span(plane_->meter, Work::copy, name_, 0, 0);
    snapshots_ = snapshot_on_devices(pieces_);
  };
  co_await plane_->run_on_borrowed(std::move(snapshot));
  for (const Device device : snapshots_.refused) {
    CAIRN_PROBE("staging.snapshot_refused");
    plane_->meter.add_fallback(
        fmt::format("{} has no room for a snapshot; its arrays were copied while the caller waited",
                    to_string(device)),
        name_);
  }
}

Awaitable<> StagedFile::open(std::shared_ptr<StagedFile> self) {
  ++self->users_;
  std::exception_ptr failure;
  try {
    co_await self->may_create_.wait();
    std::unique_ptr<io::NewFile> created;  // The others on the strand see it when it is there.
    std::function<void()> create = [&self, &created] {
      const observe::WorkSpan span(self->plane_->meter, Work::create, self->name_, 0, self->file_bytes_);
      io::NewFileOptions options;
      options.expected_bytes = self->file_bytes_;
      options.use_direct = self->medium_ == io::Medium::disk;
      options.is_filled_in_place = self->may_fill_in_place();
      if (self->has_devices_) {
        options.pin = self->plane_->pin;
      }
      created = self->create_(options);
    };
    co_await self->plane_->run_call(std::move(create));
    CAIRN_ASSERT(!self->file_, "a file is created once");
    self->file_ = std::move(created);
    if (self->is_in_place()) {
      self->place_.release();  // It has no descriptor.
    }
  } catch (...) {
    CAIRN_PROBE("staging.file_not_created");
    failure = std::current_exception();
  }
  self->opened_.complete(failure);
  self->leave_file();
}

void StagedFile::leave_file() noexcept {
  CAIRN_ASSERT(users_ > 0, "whoever leaves a file has used it");
  if (--users_ == 0 && has_failed_) {
    let_go();
  }
}

Awaitable<> StagedFile::copy_runs() {
  while (next_ < now_.size()) {
    RunMemory first = try_acquire_memory(now_[next_]);
    if (!first) {
      CAIRN_PROBE("staging.copies_wait_for_memory");
      may_hash_.set();
      first = co_await plane_->acquire_run(memory_bytes());
    }
    const std::size_t left = now_.size() - next_;
    if (left == 0) {
      co_return;  // The other sharers took the rest while this one waited.
    }
    std::vector<RunMemory> memory = try_acquire_more(std::move(first), std::min(kRunsAVisit, left));
    const auto runs = std::span<const std::uint64_t>(now_).subspan(next_, memory.size());
    CAIRN_ASSERT(next_ + memory.size() <= now_.size(), "memory is taken for runs that there are");
    next_ += memory.size();
    std::function<void()> copy = [&] { fill(runs, memory); };
    co_await plane_->run_on_borrowed(std::move(copy));
    for (std::size_t i = 0; i < memory.size(); ++i) {
      ++users_;
      plane_->helpers->spawn(write_staged(shared_from_this(), runs[i], std::move(memory[i])));
    }
  }
}

std::vector<RunMemory> StagedFile::try_acquire_more(RunMemory first, std::size_t most) const {
  std::vector<RunMemory> memory;
  memory.push_back(std::move(first));
  while (memory.size() < most) {
    RunMemory more = try_acquire_memory(now_[next_ + memory.size()]);
    if (!more) {
      break;
    }
    memory.push_back(std::move(more));
  }
  return memory;
}

RunMemory StagedFile::try_acquire_memory(std::uint64_t run) const {
  return is_in_place()
             ? RunMemory(file_->memory().subspan(static_cast<std::size_t>(offset(run)), run_bytes(run)))
             : plane_->try_acquire_run(memory_bytes());
}

Awaitable<RunMemory> StagedFile::acquire_memory(std::uint64_t run) {
  RunMemory memory = is_in_place() ? try_acquire_memory(run) : RunMemory();
  if (!memory) {
    memory = co_await plane_->acquire_run(memory_bytes());
  }
  co_return memory;
}

void StagedFile::fill(std::span<const std::uint64_t> runs, std::span<const RunMemory> memory) {
  const observe::WorkSpan span(plane_->meter, Work::copy, name_, offset(runs.front()), bytes_of(runs));
  DeviceTransfers started;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::uint64_t at = offset(runs[i]);
    // Padded with zeros: beyond the file's size there are no pieces.
    for (const std::span<std::byte> part : first_of<std::byte>(memory[i], padded(run_bytes(runs[i])))) {
      gather(callers_, at, part, started);
      at += part.size();
    }
  }
  started.wait();
  plane_->staged_bytes += bytes_of(runs);
}

Awaitable<> StagedFile::write_staged(std::shared_ptr<StagedFile> self, std::uint64_t run, RunMemory memory) {
  std::exception_ptr failure;
  try {
    const std::size_t bytes = self->run_bytes(run);
    if (self->has_pieces_[run]) {
      co_await self->may_hash_.wait();  // A device may keep a worker waiting, and the caller with it.
      std::function<void()> add = [&] {
        // What somebody keeps unchanged may be the caller's.
        const async::Gate::Visit reading =
            self->has_promised_ ? self->plane_->touch_promised_memory() : async::Gate::Visit();
        const observe::WorkSpan span(self->plane_->meter, Work::copy, self->name_, self->offset(run), 0);
        std::uint64_t at = self->offset(run);
        for (const std::span<std::byte> part : first_of<std::byte>(memory, bytes)) {
          gather_onto(self->pieces_, at, part);
          at += part.size();
        }
      };
      co_await self->plane_->run(std::move(add));
    }
    Parts blocks = first_of<const std::byte>(memory, padded(bytes));
    co_await self->write_run(run, std::move(blocks));
    co_await self->may_hash_.wait();
    Parts data = first_of<const std::byte>(memory, bytes);
    co_await self->hash_run(run, std::move(data));
  } catch (...) {
    CAIRN_PROBE("staging.run_not_written");
    failure = std::current_exception();
  }
  memory.release();
  self->end_run(std::move(failure));
  self->leave_file();
}

Awaitable<> StagedFile::write_run(std::uint64_t run, Parts data) {
  co_await opened_.wait();
  const async::Permit turn = co_await plane_->transfers.acquire();
  CAIRN_ASSERT(file_ != nullptr, "a file is open while its runs are written");
  const observe::TransferSpan span(plane_->meter, Work::write, name_, offset(run), run_bytes(run));
  const std::uint64_t end = offset(run) + run_bytes(run);
  std::uint64_t at = offset(run);
  for (std::span<const std::byte> part : data) {
    CAIRN_ASSERT(at < end, "no part of a run begins behind its end");
    if (!file_->can_write_direct(part.data(), part.size(), at)) {
      // Padding past the end of the file is for direct writes only.
      part = part.first(static_cast<std::size_t>(std::min<std::uint64_t>(part.size(), end - at)));
    }
    co_await file_->write(at, part);
    at += part.size();
  }
  plane_->written_bytes += run_bytes(run);
}

Awaitable<> StagedFile::hash_run(std::uint64_t run, Parts data) {
  std::function<void()> work = [&] { hash(run, data); };
  co_await plane_->run(std::move(work));
}

void StagedFile::hash(std::uint64_t run, const Parts& data) {
  const observe::WorkSpan span(plane_->meter, Work::hash, name_, offset(run), run_bytes(run));
  if (data.size() == 1) {
    const auto keep = [this](std::uint64_t index, std::span<const std::byte> chunk) {
      hashes_[index] = io::hash_chunk(chunk);
    };
    io::for_each_chunk(offset(run), data.front(), keep);
    return;
  }
  io::ChunkHasher hasher;  // A chunk may begin in one part and end in another.
  for (const std::span<const std::byte> part : data) {
    hasher.update(part);
  }
  const std::vector<std::uint64_t> chunks = hasher.finish(name_).chunks;
  const std::uint64_t first = offset(run) / io::kChunkBytes;
  CAIRN_ASSERT(first + chunks.size() <= hashes_.size(), "the hashes of a run lie among those of its file");
  std::copy(chunks.begin(), chunks.end(), hashes_.begin() + static_cast<std::ptrdiff_t>(first));
}

void StagedFile::fill_borrowed(std::uint64_t run, const RunMemory& memory) const {
  const async::Gate::Visit reading = plane_->touch_memory();
  const observe::WorkSpan span(plane_->meter, Work::copy, name_, offset(run), run_bytes(run));
  std::uint64_t at = offset(run);
  for (const std::span<std::byte> part : first_of<std::byte>(memory, padded(run_bytes(run)))) {
    gather(pieces_, at, part);
    at += part.size();
  }
}

Awaitable<> StagedFile::write_runs() {
  while (next_ < later_.size()) {
    const std::uint64_t run = later_[next_++];
    Awaitable<> write = original_ ? write_copied(run) : write_borrowed(run);
    co_await std::move(write);
    plane_->staged_bytes += run_bytes(run);
    end_run(nullptr);
  }
}

Awaitable<> StagedFile::write_borrowed(std::uint64_t run) {
  const std::size_t bytes = run_bytes(run);
  // Held for as long as anybody works on what may be the caller's: the kernel, too.
  async::Gate::Visit inside = plane_->touch_memory();
  const std::byte* memory = contiguous(pieces_, offset(run), bytes);
  if (memory != nullptr && file_->can_write_direct(memory, bytes, offset(run))) {
    const Parts data(1, std::span<const std::byte>(memory, bytes));
    co_await write_run(run, data);
    co_await hash_run(run, data);
    co_return;
  }
  inside.leave();  // There may be no buffer for long.
  // No more buffers than requests in flight, or the state would be in memory twice.
  const async::Permit turn = co_await plane_->gathers.acquire();
  const RunMemory buffer = co_await acquire_memory(run);
  std::function<void()> copy = [&] {
    fill_borrowed(run, buffer);
    hash(run, first_of<const std::byte>(buffer,
                                        bytes));  // While it is in the caches; and the buffer is free sooner.
  };
  co_await plane_->run(std::move(copy));
  Parts blocks = first_of<const std::byte>(buffer, padded(bytes));
  co_await write_run(run, std::move(blocks));
}

Awaitable<> StagedFile::write_copied(std::uint64_t run) {
  const std::size_t bytes = run_bytes(run);
  CAIRN_ASSERT(original_ != nullptr, "a copy has an original while it is written");
  if (const std::span<const std::byte> memory = original_->memory(); !memory.empty()) {
    const Parts data(1, memory.subspan(static_cast<std::size_t>(offset(run)), bytes));
    co_await write_run(run, data);
    std::function<void()> compare = [&] { hash_copied(run, data); };
    co_await plane_->run(std::move(compare));
    co_return;
  }
  const async::Permit turn = co_await plane_->gathers.acquire();
  const RunMemory buffer = co_await plane_->acquire_run(memory_bytes());
  const bool is_cached = original_->is_cached();
  std::uint64_t at = offset(run);
  const std::vector<std::span<std::byte>> places = first_of<std::byte>(buffer, bytes);
  for (std::size_t i = 0; !is_cached && i < places.size(); ++i) {
    co_await original_->read(at, places[i]);
    at += places[i].size();
  }
  std::function<void()> compare = [&] {
    for (std::size_t i = 0; is_cached && i < places.size(); ++i) {
      original_->read_now(at, places[i]);
      at += places[i].size();
    }
    hash_copied(run, first_of<const std::byte>(buffer, bytes));
  };
  co_await plane_->run(std::move(compare));
  Parts blocks = first_of<const std::byte>(buffer, padded(bytes));
  co_await write_run(run, std::move(blocks));
}

void StagedFile::hash_copied(std::uint64_t run, const Parts& data) {
  hash(run, data);
  const std::uint64_t first = offset(run) / io::kChunkBytes;
  const auto hashes = std::span(hashes_).subspan(static_cast<std::size_t>(first),
                                                 static_cast<std::size_t>(io::chunk_count(run_bytes(run))));
  if (original_->has_hashes(first, hashes)) {
    return;
  }
  std::vector<std::byte> whole;  // A chunk may begin in one part and end in another.
  for (const std::span<const std::byte> part : data) {
    whole.insert(whole.end(), part.begin(), part.end());
  }
  original_->verify(offset(run), whole);  // It says which chunk.
}

void StagedFile::end_run(std::exception_ptr failure) {
  CAIRN_ASSERT(ended_runs_ < runs_, "a run ends once");
  if (failure) {
    written_.fail(std::move(failure));
  } else if (++ended_runs_ == runs_) {
    written_.set();
  }
}

Awaitable<> StagedFile::finish_when_asked(std::shared_ptr<StagedFile> self) {
  std::exception_ptr failure;
  try {
    co_await self->may_finish_.wait();
    co_await self->complete();
  } catch (...) {
    failure = std::current_exception();
    CAIRN_PROBE("staging.file_not_finished");
  }
  // Its handler may hear of it only when all others have staged, and they may wait for its place.
  self->has_failed_ = failure != nullptr;
  if (self->has_failed_ && self->users_ == 0) {
    self->let_go();
  }
  self->finished_.complete(failure);
}

Background<io::FileDigest> StagedFile::finish(std::shared_ptr<StagedFile> self) {
  if (self->is_copied()) {
    self->may_finish_.set();
    co_await self->finished_.wait();
  } else {
    Executor strand = self->plane_->strand;
    co_await async::run_on(std::move(strand), finish_here(self));
  }
  io::FileDigest digest;
  digest.path = self->name_;
  digest.size_bytes = self->file_bytes_;
  CAIRN_ASSERT(self->hashes_.size() == io::chunk_count(self->file_bytes_),
               "a file is finished once, and has a hash for each chunk");
  digest.chunks = std::move(self->hashes_);
  co_return digest;
}

Awaitable<> StagedFile::finish_here(std::shared_ptr<StagedFile> self) {
  self->place_ = co_await self->plane_->files.acquire(self->descriptors());
  co_await open(self);
  co_await self->complete();
}

Awaitable<> StagedFile::complete() {
  co_await opened_.wait();
  if (!snapshots_.started.empty()) {
    std::function<void()> wait = [this] { snapshots_.wait(); };
    co_await plane_->run(std::move(wait));
  }
  std::vector<Awaitable<>> sharers;
  for (std::size_t i = 0; i < std::min(plane_->sharers(), later_.size()); ++i) {
    sharers.push_back(write_runs());
  }
  co_await async::when_all(std::move(sharers));
  co_await written_.wait();
  CAIRN_ASSERT(ended_runs_ == runs_, "a file is finished when all of its runs are written and hashed");
  CAIRN_ASSERT(next_ == later_.size(), "no run of the background phase is left");
  CAIRN_ASSERT(file_ != nullptr, "a file is finished once");
  pieces_.clear();
  {
    const observe::TransferSpan span(plane_->meter, Work::sync, name_, 0, file_bytes_);
    co_await file_->finish(file_bytes_);
  }
  plane_->meter.add_direct_bytes(file_->direct_bytes());
  if (const std::string why = file_->why_not_direct(); !why.empty()) {
    CAIRN_PROBE("staging.written_through_the_page_cache");
    plane_->meter.add_fallback(
        why + (medium_ == io::Medium::disk ? "; written through the page cache" : "; written"), name_);
  }
  file_.reset();
  if (original_) {
    std::function<void()> close = [this] { original_->close(); };
    co_await plane_->run_call(std::move(close));
  }
  place_.release();
}

}  // namespace cairn::staging
