// SPDX-License-Identifier: Apache-2.0
#include "observe/internal/exposition.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cairn::observe {

void Exposition::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void Exposition::histogram(const Histogram& histogram, const std::string& labels) {
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

void Exposition::operations(const OperationMetrics& metrics, const std::string& kind,
                            const std::string& done) {
  const auto counter = [&](const std::string& name, const std::string& help, std::uint64_t value) {
    family(name, "counter", help);
    sample("", "", value);
  };
  counter(fmt::format("cairn_{}s_started_total", kind), fmt::format("Calls to {}.", kind), metrics.begun);
  counter(fmt::format("cairn_{}s_{}_total", kind, done), fmt::format("What was {}.", done), metrics.done);
  const std::string failed = fmt::format("cairn_{}s_failed_total", kind);
  family(failed, "counter", "Failures, by error code.");
  for (const auto& [code, count] : metrics.failed) {
    sample("", "code=" + label_value(code), count);
  }
  counter(fmt::format("cairn_{}_bytes_total", kind),
          kind == "save" ? "Bytes in the files of saves that succeeded."
                         : "Bytes that loads which succeeded have read.",
          metrics.bytes);
  counter(fmt::format("cairn_{}_transfers_retried_total", kind), "Requests that were interrupted.",
          metrics.retried);
  counter(fmt::format("cairn_{}_transfers_shortened_total", kind),
          "Requests that moved fewer bytes than asked for.", metrics.shortened);
  const std::string whole = fmt::format("cairn_{}_duration_seconds", kind);
  family(whole, "histogram", fmt::format("From the call until it was {}.", done));
  histogram(metrics.whole, "");
  const std::string steps = fmt::format("cairn_{}_step_duration_seconds", kind);
  family(steps, "histogram", "Time of each step; they follow each other.");
  for (const auto& [step, times] : metrics.steps) {
    histogram(times, "step=" + label_value(name(step)));
  }
  works(metrics, kind);
}

void Exposition::works(const OperationMetrics& metrics, const std::string& kind) {
  const auto counters = [&](std::string_view what, std::string_view help, const auto& value_of) {
    const std::string family_name = fmt::format("cairn_{}_work_{}_total", kind, what);
    family(family_name, "counter", help);
    for (std::size_t i = 0; i < kWorks; ++i) {
      if (metrics.works[i].count != 0) {
        sample("", "work=" + label_value(name(static_cast<Work>(i))), value_of(metrics.works[i]));
      }
    }
  };
  counters("count", "Pieces of each kind of work.", [](const WorkFigures& work) { return work.count; });
  counters("bytes", "Bytes of each kind of work.", [](const WorkFigures& work) { return work.bytes; });
  counters("seconds", "Time of each kind of work, summed over all that went on at the same time.",
           [](const WorkFigures& work) { return std::chrono::duration<double>(work.time).count(); });
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

}  // namespace cairn::observe
