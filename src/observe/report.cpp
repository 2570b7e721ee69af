// SPDX-License-Identifier: Apache-2.0
#include "cairn/observe/report.hpp"

#include <initializer_list>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/internal/json_writer.hpp"

namespace cairn {
namespace {

using std::chrono::nanoseconds;

constexpr std::array<std::string_view, kSteps> kStepNames = {
    "resolve", "stage",       "background", "read_back", "describe", "sync_directories",
    "rename",  "sync_parent", "retire",     "find",      "plan",     "fetch"};
constexpr std::array<std::string_view, kWorks> kWorkNames = {"create", "copy",  "hash",    "write",
                                                             "sync",   "open",  "prepare", "read",
                                                             "verify", "place", "handler", "divide"};

double seconds(nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

double rate_of(std::uint64_t bytes, nanoseconds time) {
  return time.count() == 0 ? 0.0 : static_cast<double>(bytes) / static_cast<double>(time.count());
}

std::string amount(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) {
    return fmt::format("{:.2f} GB", value / 1e9);
  }
  return value >= 1e6 ? fmt::format("{:.1f} MB", value / 1e6) : fmt::format("{} bytes", bytes);
}

std::string duration(nanoseconds time) {
  return time < std::chrono::seconds(1) ? fmt::format("{:.1f} ms", seconds(time) * 1e3)
                                        : fmt::format("{:.2f} s", seconds(time));
}

void add_steps(std::string& text, const Report& report) {
  text += "\n  steps:";
  for (std::size_t i = 0; i < kSteps; ++i) {
    if (report.steps[i].count() != 0) {
      fmt::format_to(std::back_inserter(text), " {} {},", kStepNames[i], duration(report.steps[i]));
    }
  }
  text.back() = text.back() == ',' ? ' ' : text.back();
  text += "\n  work:";
  for (std::size_t i = 0; i < kWorks; ++i) {
    const WorkFigures& work = report.works[i];
    if (work.count != 0) {
      fmt::format_to(std::back_inserter(text), " {} {} in {},", kWorkNames[i], duration(work.time),
                     work.count);
    }
  }
  text.back() = text.back() == ',' ? ' ' : text.back();
}

void add_rest(std::string& text, const Report& report) {
  const TransferFigures& transfers = report.transfers;
  fmt::format_to(
      std::back_inserter(text),
      "\n  {}: {} past the page cache, depth {:.1f} (highest {}), busy {}, {} retried, {} shortened",
      report.engine, amount(report.direct_bytes), transfers.mean_depth, transfers.highest_depth,
      duration(transfers.busy_time), transfers.retried, transfers.shortened);
  fmt::format_to(std::back_inserter(text), "\n  staging memory: {} of {}, waited {} times, {}",
                 amount(report.pool.peak_bytes), amount(report.pool.capacity_bytes), report.pool.waits,
                 duration(report.pool.wait_time));
  for (const std::string& fallback : report.fallbacks) {
    text += "\n  instead: " + fallback;
  }
  for (const std::string& problem : report.problems) {
    text += "\n  problem: " + problem;
  }
}

using Members = std::initializer_list<std::pair<std::string_view, JsonScalar>>;

void write(JsonWriter& json, Members members) {
  for (const auto& [key, value] : members) {
    json.key(key).value(value);
  }
}

void write_object(JsonWriter& json, std::string_view key, Members members) {
  json.key(key).begin_object();
  write(json, members);
  json.end();
}

void write_list(JsonWriter& json, std::string_view key, const std::vector<std::string>& texts) {
  json.key(key).begin_list();
  for (const std::string& text : texts) {
    json.value(text);
  }
  json.end();
}

void write_policies(JsonWriter& json, const std::vector<PolicyFigures>& policies) {
  json.key("policies").begin_list();
  for (const auto& [description, work] : policies) {
    json.begin_object();
    write(json, {{"policy", description},
                 {"files", work.count},
                 {"bytes", work.bytes},
                 {"time_seconds", seconds(work.time)}});
    json.end();
  }
  json.end();
}

/// All that a report has, with `own` in the middle and what `write_own` writes at the end: what only a save has, or
/// only a load.
template <class WriteOwn>
std::string json_of(const Report& report, Members own, const WriteOwn& write_own) {
  std::string text;
  JsonWriter json(text, {.escapes = JsonEscapes::unprintable});  // Paths may be any bytes.
  json.begin_object();
  const std::string path = report.path.string();
  write(json, {{"path", path},
               {"bytes", report.bytes},
               {"files", report.files},
               {"direct_bytes", report.direct_bytes},
               {"engine", report.engine}});
  write(json, own);
  json.key("steps").begin_object();
  for (std::size_t i = 0; i < kSteps; ++i) {
    json.key(fmt::format("{}_seconds", kStepNames[i])).value(seconds(report.steps[i]));
  }
  json.end().key("work").begin_object();
  for (std::size_t i = 0; i < kWorks; ++i) {
    const auto& [count, bytes, time] = report.works[i];
    write_object(json, kWorkNames[i], {{"count", count}, {"bytes", bytes}, {"time_seconds", seconds(time)}});
  }
  json.end();
  const TransferFigures& transfers = report.transfers;
  write_object(json, "transfers",
               {{"highest_depth", transfers.highest_depth},
                {"mean_depth", transfers.mean_depth},
                {"busy_seconds", seconds(transfers.busy_time)},
                {"retried", transfers.retried},
                {"shortened", transfers.shortened}});
  write_object(json, "pool",
               {{"capacity_bytes", report.pool.capacity_bytes},
                {"peak_bytes", report.pool.peak_bytes},
                {"waits", report.pool.waits},
                {"wait_seconds", seconds(report.pool.wait_time)}});
  write_list(json, "fallbacks", report.fallbacks);
  write_list(json, "problems", report.problems);
  write_own(json);
  json.end();
  return text;
}

}  // namespace

std::string_view name(Step step) noexcept {
  return kStepNames[static_cast<std::size_t>(step)];
}

std::string_view name(Work work) noexcept {
  return kWorkNames[static_cast<std::size_t>(work)];
}

double SaveResult::rate() const {
  return rate_of(bytes, durable_time);
}

double LoadResult::rate() const {
  return rate_of(bytes, load_time);
}

std::string to_text(const SaveResult& result) {
  std::string text =
      fmt::format("saved {}: {} in {} files, blocked {}, durable after {}, {:.2f} GB/s", result.path.string(),
                  amount(result.bytes), result.files, duration(result.blocking_time),
                  duration(result.durable_time), result.rate());
  add_steps(text, result);
  for (const auto& [description, work] : result.policies) {
    fmt::format_to(std::back_inserter(text), "\n  divided by \"{}\": {} in {} files", description,
                   amount(work.bytes), work.count);
  }
  add_rest(text, result);
  return text;
}

std::string to_text(const LoadResult& result) {
  std::string text = fmt::format("loaded {}: {} from {} files in {}, {:.2f} GB/s, {} from the page cache",
                                 result.path.string(), amount(result.bytes), result.files,
                                 duration(result.load_time), result.rate(), amount(result.cached_bytes));
  add_steps(text, result);
  add_rest(text, result);
  for (const std::string& path : result.missing) {
    text += "\n  not stored: " + path;
  }
  for (const std::string& path : result.unexpected) {
    text += "\n  left out: " + path;
  }
  return text;
}

std::string to_json(const SaveResult& result) {
  return json_of(result,
                 {{"blocking_seconds", seconds(result.blocking_time)},
                  {"durable_seconds", seconds(result.durable_time)},
                  {"gigabytes_per_second", result.rate()}},
                 [&](JsonWriter& json) { write_policies(json, result.policies); });
}

std::string to_json(const LoadResult& result) {
  return json_of(result,
                 {{"cached_bytes", result.cached_bytes},
                  {"load_seconds", seconds(result.load_time)},
                  {"gigabytes_per_second", result.rate()}},
                 [&](JsonWriter& json) {
                   write_list(json, "missing", result.missing);
                   write_list(json, "unexpected", result.unexpected);
                 });
}

}  // namespace cairn
