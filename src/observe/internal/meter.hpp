// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "cairn/observe/report.hpp"

#include "base/internal/clock.hpp"
#include "base/internal/mutex.hpp"
#include "observe/internal/trace_recorder.hpp"

namespace cairn::observe {

/// Measures one save or load.
///
/// Threads: every method may be called from any thread; `end_step`, `fill_…` and `deliver` by one at a time.
class Meter {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Without a sink nothing is traced. `clock` must outlive the meter.
  Meter(const Clock& clock, TimePoint begin, std::string title, TraceSink sink);

  [[nodiscard]] TimePoint now() const { return clock_->steady_now(); }
  [[nodiscard]] TimePoint begin() const { return begin_; }

  /// The time since the last step ended, or since the begin, was spent on `step`.
  void end_step(Step step);
  /// When the last step ended.
  [[nodiscard]] TimePoint last() const { return last_; }

  void add_work(Work work, std::uint64_t bytes, std::chrono::nanoseconds time, std::uint64_t count = 1);
  /// Null when nothing is traced.
  [[nodiscard]] TraceRecorder* trace() const noexcept { return trace_.get(); }

  void saw_pool(std::size_t leased_bytes);
  void waited_for_pool(std::chrono::nanoseconds time);
  void add_direct_bytes(std::uint64_t bytes) { direct_bytes_ += bytes; }
  /// "`file`: `what`" has happened; the same to other files is only counted.
  void add_fallback(const std::string& what, const std::string& file);

  /// Fills in what was measured so far.
  void fill_numbers(Report& report) const noexcept;
  void fill_words(Report& report) const;

  /// Gives the trace to its sink, if there is one. Throws what the sink throws.
  void deliver() const;

 private:
  struct Counters {
    std::atomic<std::uint64_t> count{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::int64_t> nanoseconds{0};
  };
  struct Fallback {
    std::string first;
    std::uint64_t files = 0;
  };

  const Clock* clock_;
  TimePoint begin_;
  TimePoint last_;
  TraceSink sink_;
  std::unique_ptr<TraceRecorder> trace_;
  std::array<std::chrono::nanoseconds, kSteps> steps_{};
  std::array<Counters, kWorks> works_;
  std::atomic<std::size_t> pool_peak_{0};
  Counters pool_waits_;
  std::atomic<std::uint64_t> direct_bytes_{0};
  mutable Mutex mutex_;
  std::map<std::string, Fallback> fallbacks_ CAIRN_GUARDED_BY(mutex_);
};

/// Some bytes of a file, and when work on them began.
class Span {
 public:
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 protected:
  // outlives: `file` and `meter` live longer.
  Span(Meter& meter, Work work, const std::string& file, std::uint64_t offset_bytes, std::uint64_t bytes,
       Meter::TimePoint begin)
      : meter_(meter), work_(work), file_(file), offset_bytes_(offset_bytes), bytes_(bytes), begin_(begin) {}

  ~Span() = default;

  [[nodiscard]] TraceSpan until(Meter::TimePoint end) const;

  Meter& meter_;
  const Work work_;
  const std::string& file_;
  const std::uint64_t offset_bytes_;
  const std::uint64_t bytes_;
  const Meter::TimePoint begin_;
};

/// Measures one piece of work on the calling thread, from here to its end.
class WorkSpan : Span {
 public:
  // outlives: `file` and `meter` live longer.
  WorkSpan(Meter& meter, Work work, const std::string& file, std::uint64_t offset_bytes, std::uint64_t bytes)
      : Span(meter, work, file, offset_bytes, bytes, meter.now()) {}
  ~WorkSpan();
};

/// Shows one transfer in the trace, if there is one; what it took in all is measured at the engine.
/// The coroutine that holds it may be resumed on another thread.
class TransferSpan : Span {
 public:
  // outlives: `file` and `meter` live longer.
  TransferSpan(Meter& meter, Work work, const std::string& file, std::uint64_t offset_bytes,
               std::uint64_t bytes)
      : Span(meter, work, file, offset_bytes, bytes,
             meter.trace() != nullptr ? meter.now() : Meter::TimePoint()) {}
  ~TransferSpan();
};

}  // namespace cairn::observe
