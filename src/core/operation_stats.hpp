// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "cairn/observe/report.hpp"

#include "core/services.hpp"
#include "observe/internal/meter.hpp"
#include "observe/internal/metered_engine.hpp"

namespace cairn::core {

/// Measures what an operation does and how long it takes: its meter, its engine, and the report that is made
/// of both.
///
/// Threads: as the meter.
class OperationStats {
 public:
  /// `begin` is when the caller called; `trace` may be null.
  OperationStats(const Services& services, const std::string& title, observe::Meter::TimePoint begin,
                 TraceSink trace);

  [[nodiscard]] observe::Meter& meter() const noexcept { return *meter_; }
  /// The context's, measured.
  [[nodiscard]] io::Engine& engine() const noexcept { return *engine_; }

  /// Fills in what all operations measure.
  void fill_numbers(Report& report) const noexcept;
  /// Fills in the engine, and appends what was done in another way than was asked for.
  void fill_words(Report& report) const;

  /// Gives the trace to its sink, if there is one. Returns what went wrong; empty when nothing did.
  [[nodiscard]] std::string deliver_trace() const noexcept;

 private:
  const Services& services_;  // Outlive the operation.
  std::shared_ptr<observe::Meter> meter_;
  std::shared_ptr<observe::MeteredEngine> engine_;
};

}  // namespace cairn::core
