// SPDX-License-Identifier: Apache-2.0
#include "training/internal/annotations.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/json_reader.hpp"
#include "base/internal/json_writer.hpp"
#include "base/internal/utf8.hpp"
#include "store/internal/checkpoint_lock.hpp"

namespace cairn::training {
namespace {

constexpr std::string_view kOwner = store::kStepNotesName;
constexpr std::string_view kNotFinite = "not_finite";
constexpr std::size_t kMostNameBytes = 200;

void check(const Metrics& metrics) {
  if (metrics.size() > kMostMetrics) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} metrics; at most {} are kept with a step", metrics.size(), kMostMetrics));
  }
  for (const auto& [name, ignored] : metrics) {
    if (name.empty() || name.size() > kMostNameBytes || !is_valid_utf8(name)) {
      throw Error(Errc::invalid_argument,
                  fmt::format("metric '{}': the name is empty, longer than {} bytes, or not UTF-8",
                              name.substr(0, kMostNameBytes), kMostNameBytes));
    }
  }
}

double read_number(JsonReader& json, std::string_view name) {
  const int next = json.peek();
  const JsonScalar scalar = next == '{' || next == '[' ? JsonScalar() : json.read_scalar();
  if (const auto* real = std::get_if<double>(&scalar)) {
    return *real;
  }
  if (const auto* count = std::get_if<std::uint64_t>(&scalar)) {
    return static_cast<double>(*count);
  }
  if (const auto* integer = std::get_if<std::int64_t>(&scalar)) {
    return static_cast<double>(*integer);
  }
  json.fail(fmt::format("metric '{}' is not a number", name));
}

void begin_object(JsonReader& json, std::string_view what) {
  if (json.peek() != '{') {
    json.fail(fmt::format("'{}' is not an object", what));
  }
  json.begin_object();
}

Metrics read_metrics(JsonReader& json) {
  Metrics metrics;
  begin_object(json, "metrics");
  while (const auto key = json.next_key()) {
    const std::string name(*key);
    metrics[name] = read_number(json, name);
  }
  return metrics;
}

/// Reads the metrics that JSON has no number for.
void read_not_finite(JsonReader& json, Metrics& metrics) {
  begin_object(json, kNotFinite);
  while (const auto key = json.next_key()) {
    const std::string name(*key);
    const std::string text = json.peek() == '"' ? std::string(json.read_string()) : std::string();
    if (text == "nan") {
      metrics[name] = std::numeric_limits<double>::quiet_NaN();
    } else if (text == "inf" || text == "-inf") {
      metrics[name] =
          text == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
    } else {
      json.fail(fmt::format("metric '{}' is neither nan, nor inf, nor -inf", name));
    }
  }
}

StepNotes read_owned(JsonReader& json) {
  StepNotes notes;
  begin_object(json, kOwner);
  while (const auto key = json.next_key()) {
    if (*key == store::kStepMember) {
      notes.step = json.read_unsigned();
    } else if (*key == "line") {
      notes.line = json.read_unsigned();
    } else if (*key == "metrics") {
      notes.metrics.merge(read_metrics(json));
    } else if (*key == kNotFinite) {
      read_not_finite(json, notes.metrics);
    } else {
      json.skip_value();
    }
  }
  return notes;
}

}  // namespace

std::string_view not_finite_text(double value) {
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

void write_metrics(JsonWriter& json, const Metrics& metrics) {
  const auto write = [&](std::string_view member, bool is_finite, const auto& put) {
    bool has_any = false;
    for (const auto& [name, value] : metrics) {
      if (std::isfinite(value) != is_finite) {
        continue;
      }
      if (!std::exchange(has_any, true)) {
        json.key(member).begin_object();
      }
      put(json.key(name), value);
    }
    if (has_any) {
      json.end();
    }
  };
  write("metrics", true, [](JsonWriter& to, double value) { to.value(value); });
  write(kNotFinite, false, [](JsonWriter& to, double value) { to.value(not_finite_text(value)); });
}

std::string annotate(std::string_view others, std::uint64_t step, const Metrics& metrics,
                     std::optional<std::uint64_t> line) {
  check(metrics);
  std::string text;
  JsonWriter writer(text);
  writer.begin_object().key(kOwner).begin_object().key(store::kStepMember).value(step);
  if (line) {
    writer.key("line").value(*line);
  }
  write_metrics(writer, metrics);
  writer.end();
  JsonRules rules;
  rules.code = Errc::invalid_argument;
  rules.has_unique_keys = true;
  JsonReader reader(others, "annotations", rules);
  begin_object(reader, "annotations");
  while (const auto key = reader.next_key()) {
    if (*key == kOwner) {
      reader.fail(fmt::format("'{}' is written by the Checkpointer itself", kOwner));
    }
    writer.key(*key);
    reader.read_value(writer);
  }
  reader.finish();
  writer.end();
  return text;
}

StepNotes notes_of(std::string_view annotations, std::string_view path) {
  JsonRules rules;
  rules.has_unique_keys = true;
  JsonReader json(annotations, path, rules);
  StepNotes notes;
  begin_object(json, "annotations");
  while (const auto key = json.next_key()) {
    if (*key == kOwner) {
      notes = read_owned(json);
    } else {
      json.skip_value();
    }
  }
  json.finish();
  return notes;
}

}  // namespace cairn::training
