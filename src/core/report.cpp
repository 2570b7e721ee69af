// SPDX-License-Identifier: Apache-2.0
#include "cairn/core/report.hpp"

#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace cairn {
namespace {

using nlohmann::ordered_json;
using std::chrono::nanoseconds;

constexpr std::array<std::string_view, kSteps> kStepNames = {
    "resolve", "stage",       "background", "read_back", "describe", "sync_directories",
    "rename",  "sync_parent", "retire",     "find",      "plan",     "fetch"};
constexpr std::array<std::string_view, kWorks> kWorkNames = {
    "create", "copy", "hash", "write", "sync", "open", "prepare", "read", "verify", "place", "handler"};

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

ordered_json json_of_parts(const Report& report) {
  ordered_json steps = ordered_json::object();
  for (std::size_t i = 0; i < kSteps; ++i) {
    steps[std::string(kStepNames[i]) + "_seconds"] = seconds(report.steps[i]);
  }
  ordered_json works = ordered_json::object();
  for (std::size_t i = 0; i < kWorks; ++i) {
    const WorkFigures& work = report.works[i];
    works[std::string(kWorkNames[i])] = {
        {"count", work.count}, {"bytes", work.bytes}, {"time_seconds", seconds(work.time)}};
  }
  return {{"steps", std::move(steps)}, {"work", std::move(works)}};
}

std::string finish_json(ordered_json json, const Report& report) {
  json.update(json_of_parts(report));
  json["transfers"] = {{"highest_depth", report.transfers.highest_depth},
                       {"mean_depth", report.transfers.mean_depth},
                       {"busy_seconds", seconds(report.transfers.busy_time)},
                       {"retried", report.transfers.retried},
                       {"shortened", report.transfers.shortened}};
  json["pool"] = {{"capacity_bytes", report.pool.capacity_bytes},
                  {"peak_bytes", report.pool.peak_bytes},
                  {"waits", report.pool.waits},
                  {"wait_seconds", seconds(report.pool.wait_time)}};
  json["fallbacks"] = report.fallbacks;
  json["problems"] = report.problems;
  // A path may hold any bytes; JSON may not.
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json begin_json(const Report& report) {
  return {{"path", report.path.string()},
          {"bytes", report.bytes},
          {"files", report.files},
          {"direct_bytes", report.direct_bytes},
          {"engine", report.engine}};
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
  add_rest(text, result);
  return text;
}

std::string to_text(const LoadResult& result) {
  std::string text = fmt::format("loaded {}: {} from {} files in {}, {:.2f} GB/s, {} from the page cache",
                                 result.path.string(), amount(result.bytes), result.files,
                                 duration(result.load_time), result.rate(), amount(result.cached_bytes));
  add_steps(text, result);
  add_rest(text, result);
  return text;
}

std::string to_json(const SaveResult& result) {
  ordered_json json = begin_json(result);
  json["blocking_seconds"] = seconds(result.blocking_time);
  json["durable_seconds"] = seconds(result.durable_time);
  json["gigabytes_per_second"] = result.rate();
  return finish_json(std::move(json), result);
}

std::string to_json(const LoadResult& result) {
  ordered_json json = begin_json(result);
  json["cached_bytes"] = result.cached_bytes;
  json["load_seconds"] = seconds(result.load_time);
  json["gigabytes_per_second"] = result.rate();
  return finish_json(std::move(json), result);
}

}  // namespace cairn
