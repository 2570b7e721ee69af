// SPDX-License-Identifier: Apache-2.0
#include "core/operation_stats.hpp"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/probe.hpp"

namespace cairn::core {

OperationStats::OperationStats(const Services& services, const std::string& title,
                               observe::Meter::TimePoint begin, TraceSink trace)
    : services_(services),
      meter_(std::make_shared<observe::Meter>(services.clock, begin, title, std::move(trace))),
      engine_(std::make_shared<observe::MeteredEngine>(services.disk.engine(), meter_)) {}

void OperationStats::fill_numbers(Report& report) const noexcept {
  meter_->fill_numbers(report);
  report.transfers = engine_->figures();
  report.pool.capacity_bytes = services_.memory.buffers.capacity_bytes();
}

void OperationStats::fill_words(Report& report) const {
  meter_->fill_words(report);
  report.engine = services_.disk.engine().name();
  if (services_.devices.has_unpinned()) {
    report.fallbacks.emplace_back(
        "a device could not pin staging memory; copies to and from it take a detour");
  }
  if (std::string trouble = services_.disk.engine().trouble(); !trouble.empty()) {
    report.fallbacks.insert(report.fallbacks.begin(), std::move(trouble));
  }
  if (!services_.disk.choice.reason.empty()) {
    report.fallbacks.insert(report.fallbacks.begin(),
                            services_.disk.choice.reason + "; threads read and write");
  }
}

std::string OperationStats::deliver_trace() const noexcept {
  try {
    meter_->deliver();
    return {};
  } catch (...) {
    CAIRN_PROBE("core.trace_lost");
    return fmt::format("the trace is lost: {}", describe(std::current_exception()));
  }
}

}  // namespace cairn::core
