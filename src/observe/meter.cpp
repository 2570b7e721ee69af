// SPDX-License-Identifier: Apache-2.0
#include "observe/internal/meter.hpp"

#include <new>
#include <utility>

#include <fmt/format.h>

namespace cairn::observe {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;  // Sums; who reads them was told of the end otherwise.

/// Calls `add`, where nothing may fail: in a destructor, or when a checkpoint is visible already. A trace that
/// lacks a span for want of memory is still a trace.
template <class Add>
void record(Add add) noexcept {
  try {
    add();
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace

Meter::Meter(const Clock& clock, TimePoint begin, std::string title, TraceSink sink)
    : clock_(&clock), begin_(begin), last_(begin), sink_(std::move(sink)) {
  if (sink_) {
    trace_ = std::make_unique<TraceRecorder>(std::move(title));
  }
}

void Meter::end_step(Step step) {
  const TimePoint end = now();
  steps_[static_cast<std::size_t>(step)] += end - last_;
  if (trace_) {
    record([&] {
      TraceSpan span;
      span.name = name(step);
      span.begin = last_;
      span.end = end;
      trace_->add_step(std::move(span));
    });
  }
  last_ = end;
}

void Meter::add_work(Work work, std::uint64_t bytes, std::chrono::nanoseconds time, std::uint64_t count) {
  Counters& counters = works_[static_cast<std::size_t>(work)];
  counters.count.fetch_add(count, kRelaxed);
  counters.bytes.fetch_add(bytes, kRelaxed);
  counters.nanoseconds.fetch_add(time.count(), kRelaxed);
}

void Meter::saw_pool(std::size_t leased_bytes) {
  std::size_t peak = pool_peak_.load(kRelaxed);
  while (peak < leased_bytes && !pool_peak_.compare_exchange_weak(peak, leased_bytes, kRelaxed)) {
  }
}

void Meter::waited_for_pool(std::chrono::nanoseconds time) {
  pool_waits_.count.fetch_add(1, kRelaxed);
  pool_waits_.nanoseconds.fetch_add(time.count(), kRelaxed);
}

void Meter::add_fallback(const std::string& what, const std::string& file) {
  const MutexLock lock(mutex_);
  Fallback& fallback = fallbacks_[what];
  if (fallback.files++ == 0) {
    fallback.first = file;
  }
}

void Meter::fill_numbers(Report& report) const noexcept {
  report.steps = steps_;
  for (std::size_t i = 0; i < kWorks; ++i) {
    report.works[i].count = works_[i].count.load(kRelaxed);
    report.works[i].bytes = works_[i].bytes.load(kRelaxed);
    report.works[i].time = std::chrono::nanoseconds(works_[i].nanoseconds.load(kRelaxed));
  }
  report.pool.peak_bytes = pool_peak_.load(kRelaxed);
  report.pool.waits = pool_waits_.count.load(kRelaxed);
  report.pool.wait_time = std::chrono::nanoseconds(pool_waits_.nanoseconds.load(kRelaxed));
  report.direct_bytes = direct_bytes_.load(kRelaxed);
}

void Meter::fill_words(Report& report) const {
  const MutexLock lock(mutex_);
  for (const auto& [what, fallback] : fallbacks_) {
    report.fallbacks.push_back(
        fallback.files == 1 ? fmt::format("'{}': {}", fallback.first, what)
                            : fmt::format("'{}' and {} more: {}", fallback.first, fallback.files - 1, what));
  }
}

void Meter::deliver() const {
  if (trace_) {
    sink_(trace_->json());
  }
}

TraceSpan Span::until(Meter::TimePoint end) const {
  return {name(work_), begin_, end, bytes_, offset_bytes_, file_};
}

WorkSpan::~WorkSpan() {
  const Meter::TimePoint end = meter_.now();
  meter_.add_work(work_, bytes_, end - begin_);
  if (TraceRecorder* trace = meter_.trace()) {
    record([&] { trace->add_work(until(end)); });
  }
}

TransferSpan::~TransferSpan() {
  if (TraceRecorder* trace = meter_.trace()) {
    record([&] { trace->add_transfer(until(meter_.now())); });
  }
}

}  // namespace cairn::observe
