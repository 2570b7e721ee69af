// SPDX-License-Identifier: Apache-2.0
#include "faults/matrix.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <filesystem>
#include <new>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "faults/watchdog.hpp"

namespace cairn::faults {
namespace {

constexpr int kMostRunsForACount = 3;
constexpr int kMostLooks = 100;
constexpr int kMostMisses = 50;  // In a row: the rest was counted, but is made once only.

std::int64_t entries_of(const char* directory) {
  return std::distance(std::filesystem::directory_iterator(directory), std::filesystem::directory_iterator());
}

/// What a case must give back.
struct Holdings {
  std::int64_t descriptors = 0;
  std::int64_t threads = 0;
  std::int64_t news = 0;
  std::int64_t frames = 0;

  static Holdings now() {
    // The listing itself takes some: memory is looked at first.
    const std::int64_t news = injector().news;
    const std::int64_t frames = injector().frames;
    return {entries_of("/proc/self/fd"), entries_of("/proc/self/task"), news, frames};
  }

  [[nodiscard]] std::string beyond(const Holdings& before) const {
    return fmt::format("{} descriptors, {} threads, {} pieces of memory, {} frames more than before",
                       descriptors - before.descriptors, threads - before.threads, news - before.news,
                       frames - before.frames);
  }

  /// Less is no leak: the witness may have been giving back what it had used for the last case.
  [[nodiscard]] bool is_within(const Holdings& before) const {
    return descriptors <= before.descriptors && threads <= before.threads && news <= before.news &&
           frames <= before.frames;
  }
};

/// What is held when the witness, too, has let go of what it does not keep.
Holdings settled() {
  Holdings before = Holdings::now();
  for (int attempt = 0; attempt < kMostLooks; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const Holdings now = Holdings::now();
    if (now.is_within(before) && before.is_within(now)) {
      break;
    }
    before = now;
  }
  return before;
}

/// Waits until all is given back; returns what is not.
std::string leak_since(const Holdings& before, std::chrono::milliseconds settle_time) {
  const auto deadline = std::chrono::steady_clock::now() + settle_time;
  Holdings after = Holdings::now();
  while (!after.is_within(before) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    after = Holdings::now();
  }
  return after.is_within(before) ? "" : after.beyond(before);
}

void read_failure(const std::exception_ptr& failure, Verdict& verdict) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    verdict.is_error = true;
    verdict.code = error.code();
    verdict.text = error.what();
  } catch (const std::bad_alloc& error) {
    verdict.is_no_memory = true;
    verdict.text = error.what();
  } catch (const std::exception& error) {
    verdict.text = error.what();
  }
}

struct Case {
  Verdict verdict;
  std::string leak;
  bool is_hung = false;
};

/// Runs the operation once, with `fault` or with none.
Case run_once(Scene& scene, const Machine& machine, const Fault* fault) {
  Case result;
  result.verdict.text.reserve(1 << 16);  // What is left of the operation must not count as a leak.
  scene.prepare();
  const Holdings before = settled();
  const auto begin = std::chrono::steady_clock::now();
  injector().arm(fault);
  try {
    const std::string text = scene.act(machine);
    injector().disarm();
    result.verdict.is_done = true;
    result.verdict.text = text;
  } catch (...) {
    injector().disarm();
    read_failure(std::current_exception(), result.verdict);
  }
  result.is_hung = std::chrono::steady_clock::now() - begin > machine.patience;
  result.leak = leak_since(before, machine.settle_time);
  return result;
}

bool names_a_culprit(const std::string& text, const Scene& scene) {
  const std::array<std::string, 4> culprits = {scene.root(), "io_uring", "mmap", "thread"};
  return std::any_of(culprits.begin(), culprits.end(),
                     [&](const std::string& culprit) { return text.find(culprit) != std::string::npos; });
}

/// What is wrong with what the operation said; nothing when it is right.
std::string mistold(const Verdict& verdict, const Way& way, const Scene& scene) {
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
  Case result = run_once(scene, machine, &fault);
  tally.spared += injector().spared();
  if (injector().hits() == 0) {
    return false;
  }
  ++tally.cases;
  const auto complain = [&](std::uint64_t& count, const std::string& what) {
    if (!what.empty()) {
      ++count;
      tally.complaints.push_back(title + ": " + what);
    }
  };
  complain(tally.mistold, mistold(result.verdict, way, scene));
  complain(tally.mistold, injector().is_synced_again() ? "synced again after a sync had failed" : "");
  complain(tally.hung, result.is_hung ? "took too long" : "");
  complain(tally.lost, scene.judge(result.verdict));
  if (!result.leak.empty()) {  // Asio's threads keep some memory to use it again: once is no leak.
    result = run_once(scene, machine, &fault);
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
    const Case result = run_once(scene, machine, nullptr);
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
  spared += other.spared;
  complaints.insert(complaints.end(), other.complaints.begin(), other.complaints.end());
}

Tally fail_each(Scene& scene, const Machine& machine, const std::vector<Way>& ways, std::uint64_t most,
                std::uint64_t seed) {
  Tally tally;
  const std::array<std::uint64_t, kOps> counts = count_calls(scene, machine, tally);
  for (std::size_t op = 0; op < kOps; ++op) {
    const std::uint64_t step = std::max<std::uint64_t>(counts[op] / most, 1);
    int misses = 0;
    for (std::uint64_t number = 1 + seed % step; number <= counts[op] && misses < kMostMisses;
         number += step) {
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
