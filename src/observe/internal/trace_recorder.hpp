// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::observe {

/// One thing that took time.
struct TraceSpan {
  std::string_view name;  ///< Static text.
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
  std::uint64_t bytes = 0;
  std::uint64_t offset_bytes = 0;
  std::string file;  ///< Empty: of no file.
};

/// Collects the spans of one operation: what threads did, requests in flight, and steps.
///
/// Threads: `add_work` and `add_transfer` may be called concurrently and take no lock: each thread has a
///          buffer of its own. `add_step` and `json` are for one thread at a time, when nobody adds.
class TraceRecorder {
 public:
  explicit TraceRecorder(std::string title) : title_(std::move(title)) {}
  ~TraceRecorder();
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  /// Adds what the calling thread did. Spans of one thread lie side by side or within each other.
  void add_work(TraceSpan span);
  /// Adds what the engine did. Such spans overlap; `json` finds rows for them.
  void add_transfer(TraceSpan span);
  void add_step(TraceSpan span) { steps_.push_back(std::move(span)); }

  /// Everything, as Chrome's trace event format: complete events, and names for the rows.
  [[nodiscard]] std::string json() const;

 private:
  struct Buffer;

  Buffer& buffer();

  std::string title_;
  std::vector<TraceSpan> steps_;
  std::atomic<Buffer*> buffers_{nullptr};  // A list that only grows, at its head.
};

}  // namespace cairn::observe
