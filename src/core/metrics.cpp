// SPDX-License-Identifier: Apache-2.0
#include "core/metrics.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/core/context.hpp"
#include "cairn/core/metrics.hpp"

#include "core/services.hpp"

namespace cairn {
namespace core {
namespace {

constexpr std::array<std::string_view, 28> kCodeNames = {"",
                                                         "invalid_argument",
                                                         "not_found",
                                                         "already_exists",
                                                         "no_handler",
                                                         "ambiguous_handler",
                                                         "unknown_handler_id",
                                                         "type_mismatch",
                                                         "malformed_metadata",
                                                         "unsupported_version",
                                                         "checksum_mismatch",
                                                         "shape_mismatch",
                                                         "dtype_mismatch",
                                                         "unsafe_cast",
                                                         "structure_mismatch",
                                                         "incomplete_shards",
                                                         "overlapping_shards",
                                                         "not_committed",
                                                         "commit_unknown",
                                                         "handler_failed",
                                                         "peer_failed",
                                                         "timed_out",
                                                         "cancelled",
                                                         "closed",
                                                         "device_failure",
                                                         "io_failure",
                                                         "superseded",
                                                         "still_running"};
static_assert(kCodeNames.size() == static_cast<std::size_t>(Errc::still_running) + 1);

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
}

void fail(OperationMetrics& metrics, const std::exception_ptr& failure) {
  const auto code = code_of(failure);
  ++metrics.failed[code ? code_name(*code) : "other"];
}

/// Writes families of samples, each with its HELP and TYPE lines.
class Exposition {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }

  /// `labels` is `key="value",…`, or empty.
  template <class Number>
  void sample(std::string_view suffix, const std::string& labels, Number value) {
    fmt::format_to(std::back_inserter(text_), "{}{}{}{}{} {}\n", name_, suffix, labels.empty() ? "" : "{",
                   labels, labels.empty() ? "" : "}", value);
  }

  void histogram(const Histogram& histogram, const std::string& labels) {
    const std::string prefix = labels.empty() ? "" : labels + ",";
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < Histogram::kBounds.size(); ++i) {
      below += histogram.buckets()[i];
      sample("_bucket", fmt::format("{}le=\"{}\"", prefix, Histogram::kBounds[i]), below);
    }
    below += histogram.buckets().back();
    sample("_bucket", prefix + "le=\"+Inf\"", below);
    sample("_sum", labels, std::chrono::duration<double>(histogram.sum()).count());
    sample("_count", labels, below);
  }

  [[nodiscard]] std::string finish() && { return std::move(text_); }

 private:
  std::string_view name_;
  std::string text_;
};

/// The families that saves and loads have alike. `kind` is "save" or "load".
void write_operations(Exposition& out, const OperationMetrics& metrics, const std::string& kind,
                      const std::string& done) {
  const auto counter = [&](const std::string& name, const std::string& help, std::uint64_t value) {
    out.family(name, "counter", help);
    out.sample("", "", value);
  };
  counter(fmt::format("cairn_{}s_started_total", kind), fmt::format("Calls to {}.", kind), metrics.begun);
  counter(fmt::format("cairn_{}s_{}_total", kind, done), fmt::format("What was {}.", done), metrics.done);
  const std::string failed = fmt::format("cairn_{}s_failed_total", kind);
  out.family(failed, "counter", "Failures, by error code.");
  for (const auto& [code, count] : metrics.failed) {
    out.sample("", "code=" + label_value(code), count);
  }
  counter(fmt::format("cairn_{}_bytes_total", kind), "Bytes in the files of those that succeeded.",
          metrics.bytes);
  counter(fmt::format("cairn_{}_transfers_retried_total", kind), "Requests that were interrupted.",
          metrics.retried);
  counter(fmt::format("cairn_{}_transfers_shortened_total", kind),
          "Requests that moved fewer bytes than asked for.", metrics.shortened);
  const std::string whole = fmt::format("cairn_{}_duration_seconds", kind);
  out.family(whole, "histogram", fmt::format("From the call until it was {}.", done));
  out.histogram(metrics.whole, "");
  const std::string steps = fmt::format("cairn_{}_step_duration_seconds", kind);
  out.family(steps, "histogram", "Time of each step; they follow each other.");
  for (const auto& [step, histogram] : metrics.steps) {
    out.histogram(histogram, "step=" + label_value(name(step)));
  }
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
  const std::lock_guard lock(mutex_);
  begin(saves_);
}

void Metrics::end_save(const SaveResult& result) {
  const std::lock_guard lock(mutex_);
  end(saves_, result, result.durable_time);
  saves_.blocking.observe(result.blocking_time);
}

void Metrics::fail_save(const std::exception_ptr& failure) {
  const std::lock_guard lock(mutex_);
  fail(saves_, failure);
}

void Metrics::give_up_save() {
  const std::lock_guard lock(mutex_);
  ++saves_.given_up;
}

void Metrics::begin_load() {
  const std::lock_guard lock(mutex_);
  begin(loads_);
}

void Metrics::end_load(const LoadResult& result) {
  const std::lock_guard lock(mutex_);
  end(loads_, result, result.load_time);
}

void Metrics::fail_load(const std::exception_ptr& failure) {
  const std::lock_guard lock(mutex_);
  fail(loads_, failure);
}

OperationMetrics Metrics::saves() const {
  const std::lock_guard lock(mutex_);
  return saves_;
}

OperationMetrics Metrics::loads() const {
  const std::lock_guard lock(mutex_);
  return loads_;
}

std::string code_name(const std::error_code& code) {
  const auto value = static_cast<std::size_t>(code.value());
  if (code.category() == cairn_category() && value > 0 && value < kCodeNames.size()) {
    return std::string(kCodeNames[value]);
  }
  if (code.category() == std::system_category()) {
    if (const char* known = ::strerrorname_np(code.value())) {
      return known;
    }
  }
  return fmt::format("{}:{}", code.category().name(), code.value());
}

std::string label_value(std::string_view text) {
  std::string value = "\"";
  for (const char c : text) {
    if (c == '\n') {
      value += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') {
      value += '\\';
    }
    value += c;
  }
  return value + '"';
}

}  // namespace core

std::string prometheus_text(const Context& context) {
  const core::Services& services = *context.services();
  core::Exposition out;
  const core::OperationMetrics saves = services.metrics.saves();
  core::write_operations(out, saves, "save", "committed");
  out.family("cairn_saves_given_up_total", "counter",
             "Saves that were answered although something of them still ran.");
  out.sample("", "", saves.given_up);
  out.family("cairn_save_blocking_duration_seconds", "histogram", "From the call until the caller was free.");
  out.histogram(saves.blocking, "");
  core::write_operations(out, services.metrics.loads(), "load", "loaded");
  out.family("cairn_staging_used_bytes", "gauge", "Staging memory in use.");
  out.sample("", "", context.staged_bytes());
  out.family("cairn_staging_allocated_bytes", "gauge", "Staging memory taken from the system.");
  out.sample("", "", context.pool_bytes());
  out.family("cairn_engine_info", "gauge", "The engine that reads and writes.");
  out.sample("", "engine=" + core::label_value(context.engine()), 1);
  return std::move(out).finish();
}

}  // namespace cairn
