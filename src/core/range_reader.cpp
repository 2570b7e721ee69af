// SPDX-License-Identifier: Apache-2.0
#include "core/range_reader.hpp"

#include <fcntl.h>
#include <system_error>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "cairn/async/awaitable.hpp"

#include "base/internal/aligned_memory.hpp"
#include "core/drop_later.hpp"
#include "io/internal/direct.hpp"
#include "io/internal/page_cache.hpp"
#include "io/internal/transfer.hpp"

namespace cairn::core {
namespace {

using staging::kBufferBytes;

/// Below this, opening a file a second time costs more than passing the page cache by saves.
constexpr std::uint64_t kMinDirectBytes = std::uint64_t{8} << 20;

/// Nor is it worth an open when less than this is read.
constexpr std::uint64_t kMinDirectRead = std::uint64_t{1} << 20;

/// A run of more than this takes a staging buffer; one of less would waste most of it, and the first touch of a buffer
/// makes a huge page.
constexpr std::size_t kMostScratchBytes = std::size_t{256} << 10;

/// Making the pages of less than this takes no longer than going to another thread for it.
constexpr std::size_t kMinTouchBytes = std::size_t{64} << 10;

}  // namespace

RangeReader::RangeReader(std::shared_ptr<LoadJob> job, std::string relative,
                         std::vector<DestinationPiece> pieces)
    : job_(std::move(job)), relative_(std::move(relative)), pieces_(std::move(pieces)) {
  for (const DestinationPiece& piece : pieces_) {
    asked_bytes_ += piece.size_bytes;
    has_devices_ = has_devices_ || (piece.sink != nullptr && piece.sink->on_device().copier != nullptr);
  }
}

RangeReader::~RangeReader() {
  if (buffered_.is_open()) {  // It has not come to its end.
    drop_later(job_->services_owner(),
               std::tuple(std::move(place_), std::move(buffered_), std::move(direct_)));
  }
}

std::filesystem::path RangeReader::path() const {
  return job_->source().root() / relative_;
}

Background<> RangeReader::read(std::shared_ptr<RangeReader> self) {
  const std::uint64_t bytes = self->job_->source().file_bytes(self->relative_).value_or(0);
  self->place_ = co_await self->job_->services().files.acquire(self->wants_direct(bytes) ? 2 : 1);
  std::function<void()> prepare = [&self] {
    const observe::WorkSpan span(self->job_->meter(), Work::open, self->relative_, 0, 0);
    self->open();
    self->plan();
  };
  co_await self->job_->run_call(std::move(prepare));
  std::vector<Awaitable<>> lanes;
  const std::size_t depth =
      self->is_cached_ ? self->job_->services().workers.size() : self->job_->services().lanes();
  for (std::size_t i = 0; i < std::min(depth, self->runs_.size()); ++i) {
    lanes.push_back(lane(self));
  }
  co_await async::when_all(std::move(lanes));
  self->close();
}

void RangeReader::close() {
  buffered_ = io::FileHandle();
  direct_ = io::FileHandle();
  place_.release();
}

void RangeReader::open() {
  const store::FileSource& source = job_->source();
  const auto bytes = source.file_bytes(relative_);
  if (!bytes) {
    throw Error(Errc::not_found, fmt::format("{} has no file '{}'", source.root().string(), relative_));
  }
  file_bytes_ = *bytes;
  arrange(pieces_, file_bytes_);
  buffered_ = source.open_file(relative_, 0);
  if (job_->options().verify) {
    digest_ = source.digest(relative_);
  }
  job_->count_file(relative_);
  is_cached_ = io::seems_cached(buffered_.fd(), file_bytes_);
  if (!is_cached_ && wants_direct(file_bytes_)) {
    open_direct();
  }
}

void RangeReader::open_direct() {
  std::string why = io::why_not_direct(buffered_);
  if (why.empty()) {
    try {
      direct_ = job_->source().open_file(relative_, O_DIRECT);
    } catch (const Error& error) {
      if (error.code().category() != std::system_category()) {
        throw;  // Another file than the one that was opened before.
      }
      why = io::why_not_direct(error.code());
    }
  }
  is_direct_ = direct_.is_open();
  if (!is_direct_) {
    refuse_direct(why);
  }
}

void RangeReader::refuse_direct(const std::string& why) {
  is_direct_ = false;
  job_->meter().add_fallback(why + "; read through the page cache", relative_);
}

void RangeReader::plan() {
  const std::uint64_t unit = digest_ ? io::kChunkBytes : is_direct_ ? io::kDirectBytes : 1;
  for (const DestinationPiece& piece : pieces_) {
    std::uint64_t begin = piece.offset_bytes / unit * unit;
    // Without overflow: the piece lies within the file.
    const std::uint64_t last = piece.offset_bytes + piece.size_bytes;
    const std::uint64_t end = std::min(file_bytes_, last / unit * unit + (last % unit != 0 ? unit : 0));
    while (begin < end) {
      const std::uint64_t window_end = (begin / kBufferBytes + 1) * kBufferBytes;
      const std::uint64_t run_end = std::min(end, window_end);
      const bool is_same_window =
          !runs_.empty() && runs_.back().offset_bytes / kBufferBytes == begin / kBufferBytes;
      if (is_same_window) {
        runs_.back().bytes = static_cast<std::size_t>(
            std::max(run_end, runs_.back().offset_bytes + runs_.back().bytes) - runs_.back().offset_bytes);
      } else {
        runs_.push_back({begin, static_cast<std::size_t>(run_end - begin)});
      }
      begin = run_end;
    }
  }
}

Awaitable<> RangeReader::lane(std::shared_ptr<RangeReader> self) {
  while (self->next_run_ < self->runs_.size()) {
    const Run run = self->runs_[self->next_run_++];
    // Held while the kernel, too, works on what may be the caller's.
    const async::Gate::Visit inside = self->job_->touch_memory();
    std::byte* place = contiguous(self->pieces_, run.offset_bytes, run.bytes);
    if (self->is_cached_) {
      co_await read_through_cache(self, run);
    } else if (place != nullptr && (self->can_read_direct(place, run) || !self->is_aligned(run))) {
      co_await read_into_place(self, run, place);
    } else {
      co_await read_through_buffer(self, run);
    }
  }
}

Awaitable<> RangeReader::read_through_cache(std::shared_ptr<RangeReader> self, Run run) {
  std::byte* place = contiguous(self->pieces_, run.offset_bytes, run.bytes);
  Scratch scratch;
  if (place == nullptr) {
    scratch = co_await acquire_scratch(self, run.bytes);
  }
  const std::span<std::byte> data = place != nullptr ? std::span(place, run.bytes) : scratch.bytes;
  std::function<void()> copy = [&] {
    {
      const observe::WorkSpan span(self->job_->meter(), Work::read, self->relative_, run.offset_bytes,
                                   run.bytes);
      io::read_all(self->buffered_, data, run.offset_bytes, self->path());
    }
    self->job_->cached_bytes += run.bytes;
    self->job_->read_bytes += run.bytes;
    self->verify(run, data);
    if (place == nullptr) {
      self->deliver(run, data);
    }
  };
  co_await self->job_->run(std::move(copy));
}

Awaitable<> RangeReader::read_into_place(std::shared_ptr<RangeReader> self, Run run, std::byte* place) {
  const std::span<std::byte> data(place, run.bytes);
  if (run.bytes >= kMinTouchBytes) {
    // Fresh pages are made here, by several threads, and not in the kernel's one path to the disk.
    std::function<void()> prepare = [&] {
      const observe::WorkSpan span(self->job_->meter(), Work::prepare, self->relative_, run.offset_bytes,
                                   run.bytes);
      touch(data.data(), data.size());
    };
    co_await self->job_->run(std::move(prepare));
  }
  co_await read_run(self, run, data);
  if (self->digest_) {
    std::function<void()> check = [&] { self->verify(run, data); };
    co_await self->job_->run(std::move(check));
  }
}

Awaitable<> RangeReader::read_through_buffer(std::shared_ptr<RangeReader> self, Run run) {
  const Scratch scratch = co_await acquire_scratch(self, run.bytes);
  const std::span<std::byte> data = scratch.bytes;
  co_await read_run(self, run, data);
  std::function<void()> deliver = [&] {
    self->verify(run, data);
    self->deliver(run, data);
  };
  co_await self->job_->run(std::move(deliver));
}

Awaitable<RangeReader::Scratch> RangeReader::acquire_scratch(std::shared_ptr<RangeReader> self,
                                                             std::size_t bytes) {
  Scratch scratch;
  if (bytes > kMostScratchBytes || self->has_devices_) {  // Staging memory is pinned for devices.
    scratch.buffer = co_await Operation::acquire_buffer(*self->job_);
    scratch.bytes = scratch.buffer.bytes().first(bytes);
  } else {
    scratch.lease = co_await self->job_->services().scratch.acquire(bytes);
    scratch.memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    scratch.bytes = std::span(scratch.memory.get(), bytes);
  }
  co_return scratch;
}

// outlives: `data` is the caller's, who awaits this
Awaitable<> RangeReader::read_run(std::shared_ptr<RangeReader> self, Run run, std::span<std::byte> data) {
  const async::Permit turn = co_await self->job_->services().transfers.acquire();
  const observe::TransferSpan span(self->job_->meter(), Work::read, self->relative_, run.offset_bytes,
                                   run.bytes);
  bool is_read = false;
  if (self->can_read_direct(data.data(), run)) {
    try {
      co_await io::read_exact(self->job_->engine(), self->direct_.fd(), data, run.offset_bytes, self->path(),
                              io::kDirectBytes);
      self->job_->meter().add_direct_bytes(run.bytes);
      is_read = true;
    } catch (const Error& error) {
      if (!io::is_direct_refusal(error.code())) {
        throw;
      }
      if (self->is_direct_) {  // Else another lane has met it before.
        self->refuse_direct(io::why_not_direct(error.code()));
      }
    }
  }
  if (!is_read) {
    co_await io::read_exact(self->job_->engine(), self->buffered_.fd(), data, run.offset_bytes, self->path());
  }
  self->job_->read_bytes += run.bytes;
}

bool RangeReader::wants_direct(std::uint64_t file_bytes) const {
  return file_bytes >= kMinDirectBytes && asked_bytes_ >= kMinDirectRead;
}

bool RangeReader::is_aligned(Run run) const {
  return is_direct_ && run.bytes % io::kDirectBytes == 0 && run.offset_bytes % io::kDirectBytes == 0;
}

bool RangeReader::can_read_direct(const void* data, Run run) const {
  return is_aligned(run) && reinterpret_cast<std::uintptr_t>(data) % io::kDirectBytes == 0;
}

void RangeReader::deliver(Run run, std::span<const std::byte> data) const {
  const observe::WorkSpan span(job_->meter(), Work::place, relative_, run.offset_bytes, run.bytes);
  scatter(pieces_, run.offset_bytes, data);
}

void RangeReader::verify(Run run, std::span<const std::byte> data) const {
  if (!digest_) {
    return;
  }
  const observe::WorkSpan span(job_->meter(), Work::verify, relative_, run.offset_bytes, run.bytes);
  for (std::size_t at = 0; at < data.size(); at += io::kChunkBytes) {
    const std::uint64_t chunk = (run.offset_bytes + at) / io::kChunkBytes;
    io::verify_chunk(path().string(), chunk, data.subspan(at, std::min(io::kChunkBytes, data.size() - at)),
                     digest_->chunks.at(chunk));
  }
}

}  // namespace cairn::core
