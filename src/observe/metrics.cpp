// SPDX-License-Identifier: Apache-2.0
#include "observe/internal/metrics.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::observe {
namespace {

void begin(OperationMetrics& metrics) {
  ++metrics.begun;
}

void end(OperationMetrics& metrics, const Report& report, std::chrono::nanoseconds whole) {
  ++metrics.done;
  metrics.bytes += report.bytes;
  metrics.retried += report.transfers.retried;
  metrics.shortened += report.transfers.shortened;
  metrics.whole.observe(whole);
  for (std::size_t i = 0; i < kSteps; ++i) {
    if (const auto found = metrics.steps.find(static_cast<Step>(i)); found != metrics.steps.end()) {
      found->second.observe(report.steps[i]);
    }
  }
  for (std::size_t i = 0; i < kWorks; ++i) {
    metrics.works[i].count += report.works[i].count;
    metrics.works[i].bytes += report.works[i].bytes;
    metrics.works[i].time += report.works[i].time;
  }
}

/// A program may make a policy of another description for each save: what comes later than so many is counted as one.
constexpr std::size_t kMostPolicies = 100;

void add(OperationMetrics& metrics, const PolicyFigures& policy) {
  const bool has_room =
      metrics.policies.size() < kMostPolicies || metrics.policies.contains(policy.description);
  WorkFigures& figures = metrics.policies[has_room ? policy.description : "other"];
  figures.count += policy.work.count;
  figures.bytes += policy.work.bytes;
  figures.time += policy.work.time;
}

void fail(OperationMetrics& metrics, const std::exception_ptr& failure) {
  const auto code = code_of(failure);
  ++metrics.failed[code ? code_name(*code) : "other"];
}

}  // namespace

void Histogram::observe(std::chrono::nanoseconds time) {
  const double seconds = std::chrono::duration<double>(time).count();
  const auto bound = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);  // A bound includes itself.
  ++buckets_[static_cast<std::size_t>(bound - kBounds.begin())];
  sum_ += time;
}

Metrics::Metrics() {
  for (std::size_t i = 0; i < kSteps; ++i) {
    const auto step = static_cast<Step>(i);
    (step < Step::find ? saves_ : loads_).steps[step];
  }
}

void Metrics::begin_save() {
  const MutexLock lock(mutex_);
  begin(saves_);
}

void Metrics::end_save(const SaveResult& result) {
  const MutexLock lock(mutex_);
  end(saves_, result, result.durable_time);
  saves_.blocking.observe(result.blocking_time);
  for (const PolicyFigures& policy : result.policies) {
    add(saves_, policy);
  }
}

void Metrics::fail_save(const std::exception_ptr& failure) {
  const MutexLock lock(mutex_);
  fail(saves_, failure);
}

void Metrics::give_up_save() {
  const MutexLock lock(mutex_);
  ++saves_.given_up;
}

void Metrics::leave_to_recovery() {
  const MutexLock lock(mutex_);
  ++saves_.left_to_recovery;
}

void Metrics::begin_load() {
  const MutexLock lock(mutex_);
  begin(loads_);
}

void Metrics::end_load(const LoadResult& result) {
  const MutexLock lock(mutex_);
  end(loads_, result, result.load_time);
}

void Metrics::fail_load(const std::exception_ptr& failure) {
  const MutexLock lock(mutex_);
  fail(loads_, failure);
}

OperationMetrics Metrics::saves() const {
  const MutexLock lock(mutex_);
  return saves_;
}

OperationMetrics Metrics::loads() const {
  const MutexLock lock(mutex_);
  return loads_;
}

std::string code_name(const std::error_code& code) {
  if (code.category() == cairn_category()) {
    if (const std::string_view known = name(static_cast<Errc>(code.value())); !known.empty()) {
      return std::string(known);
    }
  }
  if (code.category() == std::system_category()) {
    if (const char* known = ::strerrorname_np(code.value())) {
      return known;
    }
  }
  return fmt::format("{}:{}", code.category().name(), code.value());
}

}  // namespace cairn::observe
