// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <string_view>

#include "cairn/observe/report.hpp"

#include "base/internal/mutex.hpp"

namespace cairn::observe {

/// How often something took how long.
class Histogram {
 public:
  /// Upper bounds in seconds, as Prometheus is told them; beyond the last there is "+Inf".
  static constexpr std::array<double, 12> kBounds = {0.001, 0.005, 0.01, 0.05, 0.1, 0.5,
                                                     1,     5,     10,   30,   60,  300};

  void observe(std::chrono::nanoseconds time);

  /// Counts of each bucket alone; the last one is of what is beyond all bounds.
  [[nodiscard]] const std::array<std::uint64_t, kBounds.size() + 1>& buckets() const { return buckets_; }
  [[nodiscard]] std::chrono::nanoseconds sum() const { return sum_; }

 private:
  std::array<std::uint64_t, kBounds.size() + 1> buckets_{};
  std::chrono::nanoseconds sum_{0};
};

/// The metrics of the saves, or of the loads, of a context.
struct OperationMetrics {
  std::uint64_t begun = 0;
  std::uint64_t done = 0;
  std::uint64_t bytes = 0;
  std::uint64_t retried = 0;
  std::uint64_t shortened = 0;
  std::uint64_t given_up = 0;                   ///< Answered without their end.
  std::uint64_t left_to_recovery = 0;           ///< Could not remove what they had made.
  std::map<std::string, std::uint64_t> failed;  ///< By the name of the error code.
  Histogram whole;
  Histogram blocking;  ///< Of saves only.
  std::map<Step, Histogram> steps;
  std::array<WorkFigures, kWorks> works{};
  std::map<std::string, WorkFigures>
      policies;  ///< Of saves only: by what sharding policies say of themselves.
};

/// Counts what the operations of a context did.
///
/// Threads: every method may be called from any thread.
class Metrics {
 public:
  Metrics();

  void begin_save();
  void end_save(const SaveResult& result);
  void fail_save(const std::exception_ptr& failure);
  /// A save is answered although something of it still runs; it is counted as failed or done, too.
  void give_up_save();
  /// A save that has failed could not remove its directory.
  void leave_to_recovery();
  void begin_load();
  void end_load(const LoadResult& result);
  void fail_load(const std::exception_ptr& failure);

  [[nodiscard]] OperationMetrics saves() const;
  [[nodiscard]] OperationMetrics loads() const;

 private:
  mutable Mutex mutex_;
  OperationMetrics saves_ CAIRN_GUARDED_BY(mutex_);
  OperationMetrics loads_ CAIRN_GUARDED_BY(mutex_);
};

/// "checksum_mismatch" for Cairn's own codes, "ENOSPC" for the system's; else category and value.
[[nodiscard]] std::string code_name(const std::error_code& code);

}  // namespace cairn::observe
