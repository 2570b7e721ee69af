// SPDX-License-Identifier: Apache-2.0
#include "core/staged_file.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "cairn/async/awaitable.hpp"

#include "async/internal/suspend.hpp"
#include "base/internal/checked.hpp"
#include "core/drop_later.hpp"

namespace cairn::core {
namespace {

using staging::Buffer;
using staging::kBufferBytes;

/// Buffers filled in one visit of a worker thread: enough to make the visit cheap.
constexpr std::size_t kRunsAVisit = 8;

/// Whether a piece must be read before the caller goes on.
bool is_callers_memory(const SourcePiece& piece) {
  return piece.data != nullptr || !piece.source->is_lasting();
}

/// Blocks of a direct write; the file is cut to its size afterwards.
std::size_t padded(std::size_t bytes) {
  return round_up(bytes, io::kDirectBytes);
}

}  // namespace

StagedFile::StagedFile(std::shared_ptr<SaveJob> job, std::string relative, std::vector<SourcePiece> pieces,
                       std::uint64_t file_bytes)
    : job_(std::move(job)),
      relative_(std::move(relative)),
      pieces_(std::move(pieces)),
      file_bytes_(file_bytes),
      runs_(file_bytes / kBufferBytes + (file_bytes % kBufferBytes != 0 ? 1 : 0)),
      hashes_(io::chunk_count(file_bytes)) {
  arrange(pieces_, file_bytes_);
  job_->claim(relative_);
  job_->total_bytes += file_bytes_;
  if (runs_ == 0) {
    written_.set();
  }
}

StagedFile::~StagedFile() {
  let_go();
}

void StagedFile::let_go() noexcept {
  if (file_) {  // It has not come to its end.
    drop_later(job_->services_owner(), std::pair(std::move(place_), std::move(*file_)));
    file_.reset();
  }
  place_.release();
}

std::size_t StagedFile::descriptors() const {
  return file_bytes_ >= io::DurableFileOptions().min_direct_bytes ? 2 : 1;  // One more with O_DIRECT.
}

std::size_t StagedFile::run_bytes(std::uint64_t run) const {
  return static_cast<std::size_t>(std::min<std::uint64_t>(kBufferBytes, file_bytes_ - offset(run)));
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
  if (job_->options().snapshot == Snapshot::copy) {
    std::vector<SourcePiece> own;
    callers_.reserve(pieces_.size());
    for (SourcePiece& piece : pieces_) {
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
  SaveJob& job = *self->job_;
  follow_programs(std::span<const SourcePiece>(self->pieces_));
  const bool is_copied = job.options().snapshot == Snapshot::copy;
  if (is_copied) {
    self->place_ = co_await job.services().files.acquire(self->descriptors());
    job.helpers().spawn(open(self));
  }
  co_await take_snapshots(self);
  self->divide();
  std::vector<Awaitable<>> lanes;
  for (std::size_t i = 0; i < std::min(job.services().workers.size(), self->now_.size()); ++i) {
    lanes.push_back(copy_lane(self));
  }
  co_await async::when_all(std::move(lanes));
  self->next_ = 0;
  self->callers_.clear();  // The caller's memory is the caller's again.
  self->may_hash_.set();
  if (is_copied) {
    job.helpers().spawn(finish_when_asked(self));
    job.services().files.set_when_wanted(self->may_finish_);
  }
}

Awaitable<> StagedFile::take_snapshots(std::shared_ptr<StagedFile> self) {
  const bool has_devices =
      std::any_of(self->pieces_.begin(), self->pieces_.end(), [](const SourcePiece& piece) {
        return piece.data == nullptr && piece.source->on_device().copier != nullptr;
      });
  if (self->job_->options().snapshot != Snapshot::copy || !has_devices) {
    co_return;
  }
  std::function<void()> snapshot = [&self] {
    const observe::WorkSpan span(self->job_->meter(), Work::copy, self->relative_, 0, 0);
    self->snapshots_ = snapshot_on_devices(self->pieces_);
  };
  co_await self->job_->run_on_borrowed(std::move(snapshot));
  for (const Device device : self->snapshots_.refused) {
    self->job_->meter().add_fallback(
        fmt::format("{} has no room for a snapshot; its arrays were copied while the caller waited",
                    to_string(device)),
        self->relative_);
  }
}

Awaitable<> StagedFile::open(std::shared_ptr<StagedFile> self) {
  ++self->users_;
  std::exception_ptr failure;
  try {
    co_await self->job_->created().wait();
    std::function<void()> create = [&self] {
      const observe::WorkSpan span(self->job_->meter(), Work::create, self->relative_, 0, self->file_bytes_);
      io::DurableFileOptions options;
      options.expected_bytes = self->file_bytes_;
      self->file_.emplace(self->job_->create_file(self->relative_, options));
    };
    co_await self->job_->run_call(std::move(create));
  } catch (...) {
    failure = std::current_exception();
  }
  self->opened_.complete(failure);
  self->leave_file();
}

void StagedFile::leave_file() noexcept {
  if (--users_ == 0 && has_failed_) {
    let_go();
  }
}

Awaitable<> StagedFile::copy_lane(std::shared_ptr<StagedFile> self) {
  const SaveJob& job = *self->job_;
  while (self->next_ < self->now_.size()) {
    Buffer first = job.try_acquire_buffer();
    if (!first) {
      self->may_hash_.set();
      first = co_await Operation::acquire_buffer(job);
    }
    std::vector<Buffer> buffers;
    buffers.push_back(std::move(first));
    const std::size_t left = self->now_.size() - self->next_;
    while (buffers.size() < std::min(kRunsAVisit, left)) {
      Buffer more = job.try_acquire_buffer();
      if (!more)
        break;
      buffers.push_back(std::move(more));
    }
    if (left == 0) {
      co_return;  // The other lanes took the rest while this one waited.
    }
    const auto runs = std::span<const std::uint64_t>(self->now_).subspan(self->next_, buffers.size());
    self->next_ += buffers.size();
    std::function<void()> copy = [&] { self->fill(runs, buffers); };
    co_await job.run_on_borrowed(std::move(copy));
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      ++self->users_;
      self->job_->helpers().spawn(write_staged(self, runs[i], std::move(buffers[i])));
    }
  }
}

void StagedFile::fill(std::span<const std::uint64_t> runs, std::span<const Buffer> buffers) const {
  const observe::WorkSpan span(job_->meter(), Work::copy, relative_, offset(runs.front()), bytes_of(runs));
  DeviceTransfers started;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    // Padded with zeros: beyond the file's size there are no pieces.
    gather(callers_, offset(runs[i]), buffers[i].bytes().first(padded(run_bytes(runs[i]))), started);
  }
  started.wait();
  job_->staged_bytes += bytes_of(runs);
}

Awaitable<> StagedFile::write_staged(std::shared_ptr<StagedFile> self, std::uint64_t run, Buffer buffer) {
  std::exception_ptr failure;
  try {
    const std::size_t bytes = self->run_bytes(run);
    if (self->has_pieces_[run]) {
      co_await self->may_hash_.wait();  // A device may keep a worker waiting, and the caller with it.
      std::function<void()> add = [&] {
        const observe::WorkSpan span(self->job_->meter(), Work::copy, self->relative_, self->offset(run), 0);
        gather_onto(self->pieces_, self->offset(run), buffer.bytes().first(bytes));
      };
      co_await self->job_->run(std::move(add));
    }
    co_await write_run(self, run, buffer.bytes().first(padded(bytes)));
    co_await self->may_hash_.wait();
    co_await hash_run(self, run, buffer.bytes().first(bytes));
  } catch (...) {
    failure = std::current_exception();
  }
  buffer.release();
  self->end_run(std::move(failure));
  self->leave_file();
}

// outlives: `data` is the caller's, who awaits this
Awaitable<> StagedFile::write_run(std::shared_ptr<StagedFile> self, std::uint64_t run,
                                  std::span<const std::byte> data) {
  co_await self->opened_.wait();
  const async::Permit turn = co_await self->job_->services().transfers.acquire();
  const observe::TransferSpan span(self->job_->meter(), Work::write, self->relative_, self->offset(run),
                                   self->run_bytes(run));
  // Padding past the end of the file is for direct writes only.
  const std::size_t bytes = self->file_->is_direct() ? data.size() : self->run_bytes(run);
  co_await self->file_->write(self->offset(run), data.first(bytes));
  self->job_->written_bytes += self->run_bytes(run);
}

// outlives: `data` is the caller's, who awaits this
Awaitable<> StagedFile::hash_run(std::shared_ptr<StagedFile> self, std::uint64_t run,
                                 std::span<const std::byte> data) {
  std::function<void()> hash = [&] { self->hash(run, data); };
  co_await self->job_->run(std::move(hash));
}

void StagedFile::hash(std::uint64_t run, std::span<const std::byte> data) {
  const observe::WorkSpan span(job_->meter(), Work::hash, relative_, offset(run), data.size());
  std::uint64_t chunk = offset(run) / io::kChunkBytes;
  for (std::size_t at = 0; at < data.size(); at += io::kChunkBytes, ++chunk) {
    hashes_[chunk] = io::hash_chunk(data.subspan(at, std::min(io::kChunkBytes, data.size() - at)));
  }
}

void StagedFile::fill_borrowed(std::uint64_t run, std::span<std::byte> data) const {
  const async::Gate::Visit reading = job_->touch_memory();
  const observe::WorkSpan span(job_->meter(), Work::copy, relative_, offset(run), run_bytes(run));
  gather(pieces_, offset(run), data);
}

Awaitable<> StagedFile::borrow_lane(std::shared_ptr<StagedFile> self) {
  while (self->next_ < self->later_.size()) {
    const std::uint64_t run = self->later_[self->next_++];
    const std::size_t bytes = self->run_bytes(run);
    // Held for as long as anybody works on what may be the caller's: the kernel, too.
    async::Gate::Visit inside = self->job_->touch_memory();
    const std::byte* memory = contiguous(self->pieces_, self->offset(run), bytes);
    if (memory != nullptr && self->file_->can_write_direct(memory, bytes, self->offset(run))) {
      const std::span<const std::byte> data(memory, bytes);
      co_await write_run(self, run, data);
      co_await hash_run(self, run, data);
      inside.leave();
    } else {
      inside.leave();  // There may be no buffer for long.
      // No more buffers than requests in flight, or the state would be in memory twice.
      const async::Permit turn = co_await self->job_->services().gathers.acquire();
      const Buffer buffer = co_await Operation::acquire_buffer(*self->job_);
      const std::span<std::byte> data = buffer.bytes().first(padded(bytes));
      std::function<void()> copy = [&] {
        self->fill_borrowed(run, data);
        self->hash(run, data.first(bytes));  // While it is in the caches; and the buffer is free sooner.
      };
      co_await self->job_->run(std::move(copy));
      co_await write_run(self, run, data);
    }
    self->job_->staged_bytes += bytes;
    self->end_run(nullptr);
  }
}

void StagedFile::end_run(std::exception_ptr failure) {
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
    co_await complete(self);
  } catch (...) {
    failure = std::current_exception();
  }
  // Its handler may hear of it only when all others have staged, and they may wait for its place.
  self->has_failed_ = failure != nullptr;
  if (self->has_failed_ && self->users_ == 0) {
    self->let_go();
  }
  self->finished_.complete(failure);
}

Background<> StagedFile::finish(std::shared_ptr<StagedFile> self) {
  if (self->job_->options().snapshot == Snapshot::copy) {
    self->may_finish_.set();
    co_await self->finished_.wait();
  } else {
    self->place_ = co_await self->job_->services().files.acquire(self->descriptors());
    co_await open(self);
    co_await complete(self);
  }
  io::FileDigest digest;
  digest.path = self->relative_;
  digest.size_bytes = self->file_bytes_;
  digest.chunks = std::move(self->hashes_);
  self->job_->add(std::move(digest));
}

Awaitable<> StagedFile::complete(std::shared_ptr<StagedFile> self) {
  co_await self->opened_.wait();
  if (!self->snapshots_.started.empty()) {
    std::function<void()> wait = [&self] { self->snapshots_.wait(); };
    co_await self->job_->run(std::move(wait));
  }
  std::vector<Awaitable<>> lanes;
  const std::size_t count = self->job_->services().lanes();
  for (std::size_t i = 0; i < std::min(count, self->later_.size()); ++i) {
    lanes.push_back(borrow_lane(self));
  }
  co_await async::when_all(std::move(lanes));
  co_await self->written_.wait();
  self->pieces_.clear();
  {
    const observe::TransferSpan span(self->job_->meter(), Work::sync, self->relative_, 0, self->file_bytes_);
    co_await self->file_->finish(self->file_bytes_);
  }
  self->job_->meter().add_direct_bytes(self->file_->direct_bytes());
  if (const std::string why = self->file_->why_not_direct(); !why.empty()) {
    self->job_->meter().add_fallback(why + "; written through the page cache", self->relative_);
  }
  self->file_.reset();
  self->place_.release();
}

}  // namespace cairn::core
