// SPDX-License-Identifier: Apache-2.0
#include "faults/matrix.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "faults/case.hpp"
#include "faults/watchdog.hpp"
#include "support/sampling.hpp"

namespace cairn::faults {
namespace {

constexpr int kMostRunsForACount = 3;
constexpr int kMostMisses = 50;  // In a row: the rest was counted, but is made once only.

bool names_a_culprit(const std::string& text, const Scene& scene) {
  const std::array<std::string, 4> culprits = {scene.root(), "io_uring", "mmap", "thread"};
  return std::any_of(culprits.begin(), culprits.end(),
                     [&](const std::string& culprit) { return text.find(culprit) != std::string::npos; });
}

/// What is wrong with what the operation said; nothing when it is right.
std::string mistold(const Case& result, const Way& way, const Scene& scene) {
  const Verdict& verdict = result.verdict;
  if (!result.breakdown.empty()) {
    return result.breakdown;
  }
  if (verdict.has_ended_process) {
    return result.refused_bytes < kLargeBytes
               ? ""
               : fmt::format("ended the process for want of {} bytes", result.refused_bytes);
  }
  if (verdict.is_done) {
    return way.expect == Expect::told && verdict.text.empty() ? "went unnoticed" : "";
  }
  if (way.expect == Expect::retried) {
    return "was not tried again: " + verdict.text;
  }
  if (way.op == Op::new_memory) {
    const bool is_right = verdict.is_no_memory || verdict.is_error;
    return is_right ? "" : "threw neither std::bad_alloc nor an Error: " + verdict.text;
  }
  if (!verdict.is_error) {
    return "threw no Error: " + verdict.text;
  }
  const bool is_stopped = way.effect == Effect::slow && verdict.code == Errc::cancelled;
  const bool is_right = verdict.code == std::error_code(way.error, std::system_category()) ||
                        verdict.code == Errc::commit_unknown || is_stopped;
  if (!is_right) {
    return "another error: " + verdict.text;
  }
  return names_a_culprit(verdict.text, scene) ? "" : "names no culprit: " + verdict.text;
}

/// Runs one case and adds what came of it. Returns whether the fault was hit.
bool try_one(Scene& scene, const Machine& machine, const Way& way, std::uint64_t number, Tally& tally) {
  const Fault fault{way.op, number, way.error, way.effect};
  const std::string title =
      fmt::format("{} ({}), {}", scene.name(),
                  machine.engine == io::EngineKind::threads ? "threads" : "io_uring", describe(fault));
  const Watchdog::Watch watch(title);
  const bool may_end = way.op == Op::new_memory;
  Case result = may_end ? run_case_in_child(scene, machine, fault) : run_case(scene, machine, &fault);
  if (result.hits == 0 && result.breakdown.empty()) {
    return false;
  }
  ++tally.cases;
  tally.ended += result.verdict.has_ended_process ? 1 : 0;
  const auto complain = [&](std::uint64_t& count, const std::string& what) {
    if (!what.empty()) {
      ++count;
      tally.complaints.push_back(title + ": " + what);
    }
  };
  complain(tally.mistold, mistold(result, way, scene));
  complain(tally.mistold, injector().is_synced_again() ? "synced again after a sync had failed" : "");
  complain(tally.hung, result.is_hung ? "took too long" : "");
  complain(tally.lost, scene.judge(result.verdict));
  if (may_end) {
    complain(tally.leaked, result.leak);
  } else if (!result.leak.empty()) {  // Asio's threads keep some memory to use it again: once is no leak.
    result = run_case(scene, machine, &fault);
    complain(tally.leaked, result.leak);
    complain(tally.lost, scene.judge(result.verdict));
  }
  return true;
}

/// How often each kind of call happens when nothing fails.
std::array<std::uint64_t, kOps> count_calls(Scene& scene, const Machine& machine, Tally& tally) {
  std::array<std::uint64_t, kOps> most{};
  for (int run = 0; run < kMostRunsForACount; ++run) {  // The first ones also make what is made once only.
    const Watchdog::Watch watch(fmt::format("{}, no fault", scene.name()));
    const Case result = run_case(scene, machine, nullptr);
    const std::string wrong = scene.judge(result.verdict);
    const bool is_first = run == 0;
    if (!result.verdict.is_done || !wrong.empty() || (!is_first && !result.leak.empty())) {
      tally.complaints.push_back(fmt::format("{} fails without a fault: {} {} {}", scene.name(),
                                             result.verdict.text, wrong, result.leak));
    }
    for (std::size_t i = 0; i < kOps; ++i) {
      most[i] = std::max(most[i], injector().count(static_cast<Op>(i)));
    }
  }
  return most;
}

}  // namespace

void Tally::add(const Tally& other) {
  cases += other.cases;
  operations += other.operations;
  lost += other.lost;
  mistold += other.mistold;
  leaked += other.leaked;
  hung += other.hung;
  ended += other.ended;
  complaints.insert(complaints.end(), other.complaints.begin(), other.complaints.end());
}

Tally fail_each(Scene& scene, const Machine& machine, const std::vector<Way>& ways, const Share& share) {
  Tally tally;
  const std::array<std::uint64_t, kOps> counts = count_calls(scene, machine, tally);
  for (std::size_t op = 0; op < kOps; ++op) {
    const std::uint64_t step = std::max<std::uint64_t>({counts[op] / share.most, share.one_in, 1});
    const testing::Sample sample(step, share.seed);
    int misses = 0;
    for (std::uint64_t number = 1; number <= counts[op] && misses < kMostMisses; ++number) {
      if (!sample.takes(number - 1)) {
        continue;
      }
      bool is_hit = false;
      for (const Way& way : ways) {
        if (way.op == static_cast<Op>(op)) {
          is_hit = try_one(scene, machine, way, number, tally) || is_hit;
        }
      }
      tally.operations += is_hit ? 1 : 0;
      misses = is_hit ? 0 : misses + 1;
    }
  }
  return tally;
}

}  // namespace cairn::faults
