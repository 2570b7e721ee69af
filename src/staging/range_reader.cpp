// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/range_reader.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "cairn/async/awaitable.hpp"

#include "base/internal/aligned_memory.hpp"
#include "base/internal/assert.hpp"
#include "io/internal/chunk_hash.hpp"

namespace cairn::staging {
namespace {

/// A run of more than this takes a staging buffer; one of less would waste most of it, and the first touch of a buffer
/// makes a huge page.
constexpr std::size_t kMostScratchBytes = std::size_t{256} << 10;

/// Of a cached file, runs of at most this are read by one worker, so many at a time: to go to another thread takes
/// longer than to read them.
constexpr std::size_t kMostSmallBytes = std::size_t{64} << 10;
constexpr std::size_t kSmallRunsAtOnce = 64;

/// Making the pages of less than this takes no longer than going to another thread for it.
constexpr std::size_t kMinTouchBytes = std::size_t{64} << 10;

std::uint64_t bytes_of(std::span<const DestinationPiece> pieces) {
  return std::accumulate(
      pieces.begin(), pieces.end(), std::uint64_t{0},
      [](std::uint64_t sum, const DestinationPiece& piece) { return sum + piece.size_bytes; });
}

std::uint64_t bytes_of(std::span<const Run> runs) {
  return std::accumulate(runs.begin(), runs.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Run& run) { return sum + run.bytes; });
}

bool is_on_device(const DestinationPiece& piece) {
  return piece.sink != nullptr && piece.sink->on_device().copier != nullptr;
}

bool is_checked(const DestinationPiece& piece) {
  return piece.check != nullptr;
}

}  // namespace

// outlives: the plane outlives the reader.
RangeReader::RangeReader(DataPlane& plane, FileToRead file, std::vector<DestinationPiece> pieces)
    : plane_(plane),
      pieces_(std::move(pieces)),
      has_devices_(std::any_of(pieces_.begin(), pieces_.end(), is_on_device)),
      has_checks_(std::any_of(pieces_.begin(), pieces_.end(), is_checked)),
      file_(plane, std::move(file), bytes_of(pieces_)) {}

// outlives: the plane, and what `lend` and `pass_on` refer to, outlive the reader.
RangeReader::RangeReader(DataPlane& plane, FileToRead file, std::vector<DestinationPiece> pieces,
                         std::vector<Run> runs, Lend lend, PassOn pass_on)
    : plane_(plane),
      pieces_(std::move(pieces)),
      has_devices_(std::any_of(pieces_.begin(), pieces_.end(), is_on_device)),
      has_checks_(std::any_of(pieces_.begin(), pieces_.end(), is_checked)),
      file_(plane, std::move(file), bytes_of(runs)),
      runs_(std::move(runs)),
      lend_(std::move(lend)),
      pass_on_(std::move(pass_on)) {}

Awaitable<> RangeReader::read() {
  Executor strand = plane_.strand;
  co_await async::run_on(std::move(strand), read_here());
}

Awaitable<> RangeReader::read_here() {
  co_await file_.acquire_descriptors();
  std::function<void()> prepare = [this] {
    const observe::WorkSpan span(plane_.meter, Work::open, file_.name(), 0, 0);
    arrange(pieces_, file_.size_bytes());
    file_.open();
    plan();
  };
  co_await plane_.run_call(std::move(prepare));
  std::vector<Awaitable<>> sharers;
  const std::size_t most = file_.is_cached() ? plane_.workers.size() : plane_.sharers();
  for (std::size_t i = 0; i < std::min(most, runs_.size()); ++i) {
    sharers.push_back(read_runs());
  }
  co_await async::when_all(std::move(sharers));
  CAIRN_ASSERT(next_run_ >= runs_.size(), "a file is closed when all of its runs have been read");
  file_.close();
}

void RangeReader::plan() {
  if (!pass_on_) {
    runs_ = plan_runs(pieces_, file_.size_bytes(), file_.unit_bytes());
  }
  for (const Run& run : runs_) {
    plane_.wanted_bytes += run.bytes;
  }
}

Awaitable<> RangeReader::read_runs() {
  while (next_run_ < runs_.size()) {
    const Run run = runs_[next_run_++];
    CAIRN_ASSERT(run.bytes > 0 && run.bytes <= kBufferBytes, "a run fits into a staging buffer");
    CAIRN_ASSERT(run.offset_bytes + run.bytes <= file_.size_bytes(), "a run lies within its file");
    // Held while the kernel, too, works on what may be the caller's.
    const async::Gate::Visit inside = plane_.touch_memory();
    std::byte* place = contiguous(pieces_, run.offset_bytes, run.bytes);
    if (!file_.memory().empty()) {
      co_await read_in_memory(run);
    } else if (file_.is_cached() && run.bytes <= kMostSmallBytes && !pass_on_ && !has_devices_) {
      co_await read_small_runs(run);
    } else if (file_.is_cached()) {
      co_await read_through_cache(run, place);
    } else if (place != nullptr && !file_.needs_buffer(run.offset_bytes, std::span(place, run.bytes))) {
      co_await read_into_place(run, place);
    } else {
      co_await read_through_buffer(run);
    }
    plane_.loaded_bytes += run.bytes;
  }
}

Awaitable<> RangeReader::read_in_memory(Run run) {
  const std::span<const std::byte> data = file_.memory().subspan(run.offset_bytes, run.bytes);
  std::function<void()> copy = [&] {
    file_.verify(run.offset_bytes, data);
    deliver(run, data);
  };
  co_await plane_.run(std::move(copy));
  plane_.read_bytes += data.size();
  co_await pass_on(run, data);
}

Awaitable<> RangeReader::read_through_cache(Run run, std::byte* place) {
  Scratch scratch;
  if (place == nullptr) {
    scratch = co_await acquire_scratch(run);
  }
  const std::span<std::byte> data = place != nullptr ? std::span(place, run.bytes) : scratch.bytes;
  std::function<void()> copy = [&] {
    // What was just copied is hashed while it is in the processor's caches.
    for (std::size_t at = 0; at < data.size(); at += io::kChunkBytes) {
      // A read may be slow, and the memory be wanted back meanwhile.
      const async::Gate::Visit still_inside = plane_.touch_memory();
      const std::span<std::byte> chunk = data.subspan(at, std::min(io::kChunkBytes, data.size() - at));
      file_.read_now(run.offset_bytes + at, chunk);
      file_.verify(run.offset_bytes + at, chunk);
    }
    if (place == nullptr || has_checks_) {
      deliver(run, data);
    }
  };
  co_await plane_.run(std::move(copy));
  co_await pass_on(run, data);
}

Awaitable<> RangeReader::read_small_runs(Run first) {
  std::vector<Run> some = {first};
  while (next_run_ < runs_.size() && some.size() < kSmallRunsAtOnce &&
         runs_[next_run_].bytes <= kMostSmallBytes) {
    some.push_back(runs_[next_run_++]);
  }
  const async::Permit lease = co_await plane_.scratch.acquire(kMostSmallBytes);
  std::function<void()> copy = [&] {
    const auto memory = std::make_unique_for_overwrite<std::byte[]>(kMostSmallBytes);
    for (const Run& run : some) {
      CAIRN_ASSERT(run.bytes <= kMostSmallBytes, "only small runs are read together");
      const async::Gate::Visit still_inside = plane_.touch_memory();
      std::byte* const place = contiguous(pieces_, run.offset_bytes, run.bytes);
      const std::span<std::byte> data(place != nullptr ? place : memory.get(), run.bytes);
      file_.read_now(run.offset_bytes, data);
      file_.verify(run.offset_bytes, data);
      if (place == nullptr || has_checks_) {
        deliver(run, data);
      }
    }
  };
  co_await plane_.run(std::move(copy));
  plane_.loaded_bytes += bytes_of(std::span<const Run>(some)) - first.bytes;  // Who called counts the first.
}

Awaitable<> RangeReader::read_into_place(Run run, std::byte* place) {
  const std::span<std::byte> data(place, run.bytes);
  if (run.bytes >= kMinTouchBytes) {
    // Fresh pages are made here, by several threads, and not in the kernel's one path to the disk.
    std::function<void()> prepare = [&] {
      const observe::WorkSpan span(plane_.meter, Work::prepare, file_.name(), run.offset_bytes, run.bytes);
      touch(data.data(), data.size());
    };
    co_await plane_.run(std::move(prepare));
  }
  co_await file_.read(run.offset_bytes, data);
  if (file_.is_verified() || has_checks_) {
    std::function<void()> check = [&] {
      file_.verify(run.offset_bytes, data);
      if (has_checks_) {
        deliver(run, data);
      }
    };
    co_await plane_.run(std::move(check));
  }
  co_await pass_on(run, data);
}

Awaitable<> RangeReader::read_through_buffer(Run run) {
  const Scratch scratch = co_await acquire_scratch(run);
  const std::span<std::byte> data = scratch.bytes;
  co_await file_.read(run.offset_bytes, data);
  std::function<void()> finish = [&] {
    file_.verify(run.offset_bytes, data);
    deliver(run, data);
  };
  co_await plane_.run(std::move(finish));
  co_await pass_on(run, data);
}

// outlives: `data` is the caller's, who awaits this
Awaitable<> RangeReader::pass_on(Run run, std::span<const std::byte> data) {
  if (pass_on_) {
    co_await pass_on_(run, data);
  }
}

Awaitable<RangeReader::Scratch> RangeReader::acquire_scratch(Run run) {
  Scratch scratch;
  if (lend_ && !has_devices_) {  // Staging memory is pinned for devices.
    scratch.bytes = co_await lend_(run);
  }
  if (!scratch.bytes.empty()) {
    CAIRN_ASSERT(scratch.bytes.size() == run.bytes, "memory that is lent for a run has its size");
    co_return scratch;
  }
  if (run.bytes > kMostScratchBytes || has_devices_) {
    scratch.buffer = co_await plane_.acquire_buffer();
    scratch.bytes = scratch.buffer.bytes().first(run.bytes);
  } else {
    scratch.lease = co_await plane_.scratch.acquire(run.bytes);
    scratch.memory = std::make_unique_for_overwrite<std::byte[]>(run.bytes);
    scratch.bytes = std::span(scratch.memory.get(), run.bytes);
  }
  co_return scratch;
}

void RangeReader::deliver(Run run, std::span<const std::byte> data) const {
  const observe::WorkSpan span(plane_.meter, Work::place, file_.name(), run.offset_bytes, run.bytes);
  scatter(pieces_, run.offset_bytes, data);
}

}  // namespace cairn::staging
