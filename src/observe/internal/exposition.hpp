// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "observe/internal/metrics.hpp"

namespace cairn::observe {

/// Prometheus' text format 0.0.4: families of samples, each with its HELP and TYPE lines.
class Exposition {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help);

  /// `labels` is `key="value",…`, or empty.
  template <class Number>
  void sample(std::string_view suffix, const std::string& labels, Number value) {
    fmt::format_to(std::back_inserter(text_), "{}{}{}{}{} {}\n", name_, suffix, labels.empty() ? "" : "{",
                   labels, labels.empty() ? "" : "}", value);
  }

  void histogram(const Histogram& histogram, const std::string& labels);

  /// Writes what was done of each kind of work, where there was any.
  void works(const OperationMetrics& metrics, const std::string& kind);

  /// The families that saves and loads have alike. `kind` is "save" or "load", `done` says how one ends: "committed".
  void operations(const OperationMetrics& metrics, const std::string& kind, const std::string& done);

  [[nodiscard]] std::string finish() && { return std::move(text_); }

 private:
  std::string_view name_;
  std::string text_;
};

/// A label's value in quotes, escaped: backslash, quote and line feed.
[[nodiscard]] std::string label_value(std::string_view text);

}  // namespace cairn::observe
