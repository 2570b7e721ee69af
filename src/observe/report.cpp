// SPDX-License-Identifier: Apache-2.0
#include "cairn/observe/report.hpp"

#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/internal/json_string.hpp"

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

std::string json_list(const std::vector<std::string>& texts) {
  std::string list = "[";
  for (const std::string& text : texts) {
    list += list.size() > 1 ? "," : "";
    list += json_string(text);
  }
  return list + "]";
}

std::string json_of_steps(const Report& report) {
  std::string steps;
  for (std::size_t i = 0; i < kSteps; ++i) {
    fmt::format_to(std::back_inserter(steps), R"({}"{}_seconds":{})", i == 0 ? "" : ",", kStepNames[i],
                   seconds(report.steps[i]));
  }
  return steps;
}

std::string json_of_works(const Report& report) {
  std::string works;
  for (std::size_t i = 0; i < kWorks; ++i) {
    const WorkFigures& work = report.works[i];
    fmt::format_to(std::back_inserter(works), R"({}"{}":{{"count":{},"bytes":{},"time_seconds":{}}})",
                   i == 0 ? "" : ",", kWorkNames[i], work.count, work.bytes, seconds(work.time));
  }
  return works;
}

std::string json_of_transfers(const TransferFigures& transfers) {
  return fmt::format(R"("highest_depth":{},"mean_depth":{},"busy_seconds":{},"retried":{},"shortened":{})",
                     transfers.highest_depth, transfers.mean_depth, seconds(transfers.busy_time),
                     transfers.retried, transfers.shortened);
}

std::string json_of_pool(const PoolFigures& pool) {
  return fmt::format(R"("capacity_bytes":{},"peak_bytes":{},"waits":{},"wait_seconds":{})",
                     pool.capacity_bytes, pool.peak_bytes, pool.waits, seconds(pool.wait_time));
}

/// All that a report has, with `own` in the middle: what only a save has, or only a load.
std::string json_of(const Report& report, const std::string& own) {
  std::string text = fmt::format(R"({{"path":{},"bytes":{},"files":{},"direct_bytes":{},"engine":{},{})",
                                 json_string(report.path.string()), report.bytes, report.files,
                                 report.direct_bytes, json_string(report.engine), own);
  fmt::format_to(std::back_inserter(text),
                 R"(,"steps":{{{}}},"work":{{{}}},"transfers":{{{}}},"pool":{{{}}})", json_of_steps(report),
                 json_of_works(report), json_of_transfers(report.transfers), json_of_pool(report.pool));
  fmt::format_to(std::back_inserter(text), R"(,"fallbacks":{},"problems":{}}})", json_list(report.fallbacks),
                 json_list(report.problems));
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
  return json_of(result,
                 fmt::format(R"("blocking_seconds":{},"durable_seconds":{},"gigabytes_per_second":{})",
                             seconds(result.blocking_time), seconds(result.durable_time), result.rate()));
}

std::string to_json(const LoadResult& result) {
  return json_of(result, fmt::format(R"("cached_bytes":{},"load_seconds":{},"gigabytes_per_second":{})",
                                     result.cached_bytes, seconds(result.load_time), result.rate()));
}

}  // namespace cairn
