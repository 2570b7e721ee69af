// SPDX-License-Identifier: Apache-2.0
#include "core/range_reader.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "cairn/async/when_all.hpp"
#include "cairn/base/aligned_memory.hpp"
#include "cairn/io/durable_file.hpp"
#include "cairn/io/page_cache.hpp"
#include "cairn/io/transfer.hpp"
#include "cairn/staging/buffer_pool.hpp"

namespace cairn::core {
namespace {

using staging::Buffer;
using staging::kBufferBytes;

/// Below this, opening a file a second time costs more than passing the page cache by saves.
constexpr std::uint64_t kMinDirectBytes = std::uint64_t{8} << 20;

}  // namespace

RangeReader::RangeReader(std::shared_ptr<LoadJob> job, std::string relative,
                         std::vector<DestinationPiece> pieces)
    : job_(std::move(job)), relative_(std::move(relative)), pieces_(std::move(pieces)) {}

std::filesystem::path RangeReader::path() const {
  return job_->source().path() / relative_;
}

Background<> RangeReader::read(std::shared_ptr<RangeReader> self) {
  std::function<void()> prepare = [&self] {
    const WorkSpan span(self->job_->meter(), Work::open, self->relative_, 0, 0);
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
}

void RangeReader::open() {
  const FileSource& source = job_->source();
  const auto bytes = source.file_bytes(relative_);
  if (!bytes) {
    throw Error(Errc::not_found, fmt::format("{} has no file '{}'", source.path().string(), relative_));
  }
  file_bytes_ = *bytes;
  arrange(pieces_, file_bytes_);
  buffered_ = source.open_file(relative_, 0);
  if (job_->options().verify) {
    digest_ = source.digest(relative_);
  }
  job_->count_file(relative_);
  is_cached_ = io::seems_cached(buffered_.fd(), file_bytes_);
  if (!is_cached_ && file_bytes_ >= kMinDirectBytes) {
    try {
      direct_ = source.open_file(relative_, O_DIRECT);
    } catch (const Error& error) {
      if (error.code() != std::errc::invalid_argument)
        throw;  // EINVAL: the file system has no O_DIRECT.
      job_->meter().add_fallback("the file system refuses O_DIRECT; read through the page cache", relative_);
    }
  }
}

void RangeReader::plan() {
  for (const DestinationPiece& piece : pieces_) {
    std::uint64_t begin = piece.offset_bytes / io::kChunkBytes * io::kChunkBytes;
    const std::uint64_t last = piece.offset_bytes + piece.size_bytes;
    const std::uint64_t end = std::min(file_bytes_, io::chunk_count(last) * io::kChunkBytes);
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
    } else if (place != nullptr && self->can_read_direct(place, run)) {
      co_await read_into_place(self, run, place);
    } else {
      co_await read_through_buffer(self, run);
    }
  }
}

Awaitable<> RangeReader::read_through_cache(std::shared_ptr<RangeReader> self, Run run) {
  std::byte* place = contiguous(self->pieces_, run.offset_bytes, run.bytes);
  Buffer buffer;
  if (place == nullptr) {
    buffer = co_await Operation::acquire_buffer(*self->job_);
  }
  const std::span<std::byte> data(place != nullptr ? place : buffer.bytes().data(), run.bytes);
  std::function<void()> copy = [&] {
    {
      const WorkSpan span(self->job_->meter(), Work::read, self->relative_, run.offset_bytes, run.bytes);
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
  // Fresh pages are made here, by several threads, and not in the kernel's one path to the disk.
  std::function<void()> prepare = [&] {
    const WorkSpan span(self->job_->meter(), Work::prepare, self->relative_, run.offset_bytes, run.bytes);
    touch(data.data(), data.size());
  };
  co_await self->job_->run(std::move(prepare));
  {
    const async::ByteLease turn = co_await self->job_->services().transfers.acquire(1);
    const TransferSpan span(self->job_->meter(), Work::read, self->relative_, run.offset_bytes, run.bytes);
    co_await io::read_exact(self->job_->engine(), self->direct_.fd(), data, run.offset_bytes, self->path(),
                            io::kDirectBytes);
    self->job_->meter().add_direct_bytes(run.bytes);
  }
  self->job_->read_bytes += run.bytes;
  if (self->digest_) {
    std::function<void()> check = [&] { self->verify(run, data); };
    co_await self->job_->run(std::move(check));
  }
}

Awaitable<> RangeReader::read_through_buffer(std::shared_ptr<RangeReader> self, Run run) {
  const Buffer buffer = co_await Operation::acquire_buffer(*self->job_);
  const std::span<std::byte> data = buffer.bytes().first(run.bytes);
  {
    const async::ByteLease turn = co_await self->job_->services().transfers.acquire(1);
    const TransferSpan span(self->job_->meter(), Work::read, self->relative_, run.offset_bytes, run.bytes);
    const bool is_direct = self->can_read_direct(data.data(), run);
    co_await io::read_exact(self->job_->engine(), is_direct ? self->direct_.fd() : self->buffered_.fd(), data,
                            run.offset_bytes, self->path(), is_direct ? io::kDirectBytes : 1);
    self->job_->meter().add_direct_bytes(is_direct ? run.bytes : 0);
  }
  self->job_->read_bytes += run.bytes;
  std::function<void()> deliver = [&] {
    self->verify(run, data);
    self->deliver(run, data);
  };
  co_await self->job_->run(std::move(deliver));
}

bool RangeReader::can_read_direct(const void* data, Run run) const {
  return direct_.is_open() && reinterpret_cast<std::uintptr_t>(data) % io::kDirectBytes == 0 &&
         run.bytes % io::kDirectBytes == 0 && run.offset_bytes % io::kDirectBytes == 0;
}

void RangeReader::deliver(Run run, std::span<const std::byte> data) const {
  const WorkSpan span(job_->meter(), Work::place, relative_, run.offset_bytes, run.bytes);
  scatter(pieces_, run.offset_bytes, data);
}

void RangeReader::verify(Run run, std::span<const std::byte> data) const {
  if (!digest_) {
    return;
  }
  const WorkSpan span(job_->meter(), Work::verify, relative_, run.offset_bytes, run.bytes);
  for (std::size_t at = 0; at < data.size(); at += io::kChunkBytes) {
    const std::uint64_t chunk = (run.offset_bytes + at) / io::kChunkBytes;
    io::verify_chunk(path().string(), chunk, data.subspan(at, std::min(io::kChunkBytes, data.size() - at)),
                     digest_->chunks.at(chunk));
  }
}

}  // namespace cairn::core
