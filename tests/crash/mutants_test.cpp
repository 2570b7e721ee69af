// SPDX-License-Identifier: Apache-2.0
// The enumerations find protocols that are broken on purpose: prints one line with the counts.
//
// CAIRN_CRASH_SEED: where the random states begin; CAIRN_CRASH_ONLY: part of the names of the mutants' scenes.
#include "crash/mutants.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/number_from.hpp"

namespace cairn::crash {
namespace {

/// Plays mutants one after the other; several threads may.
class Hunt {
 public:
  Hunt(std::uint64_t seed, std::string_view only) : seed_(seed) {
    for (const Mutant& each : all_mutants()) {
      if (each.scene.find(only) != std::string::npos) {
        played_.push_back(&each);
      }
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (next_ < played_.size()) {
      const Mutant& mutant = *played_[next_++];
      lock.unlock();
      const EnumerationReport report = enumerate(mutant, seed_);
      lock.lock();
      judge(mutant, report);
    }
  }

  [[nodiscard]] std::size_t mutants() const { return mutants_; }
  [[nodiscard]] std::size_t caught() const { return caught_; }
  /// Mutants that are not what they should be, one on each line.
  [[nodiscard]] const std::string& surprises() const { return surprises_; }

 private:
  void judge(const Mutant& mutant, const EnumerationReport& report) {
    const bool is_caught = report.failures > 0;
    if (mutant.equivalence.empty()) {
      ++mutants_;
      caught_ += is_caught ? 1 : 0;
    }
    if (is_caught != mutant.equivalence.empty()) {
      surprises_ += fmt::format("{}: {} {}\n", mutant.scene, mutant.name,
                                is_caught ? "is not harmless: " + report.first_failure : "survives");
    }
  }

  const std::uint64_t seed_;
  std::vector<const Mutant*> played_;
  std::mutex mutex_;  // Guards what follows.
  std::size_t next_ = 0;
  std::size_t mutants_ = 0;
  std::size_t caught_ = 0;
  std::string surprises_;
};

TEST(CrashMutants, AreAllCaught) {
  const std::uint64_t seed = testing::number_from("CAIRN_CRASH_SEED", 1);
  const char* only = std::getenv("CAIRN_CRASH_ONLY");
  Hunt hunt(seed, only == nullptr ? "" : only);

  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&hunt] { hunt.work(); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  fmt::print("crash: {} of {} mutants caught (seed {})\n", hunt.caught(), hunt.mutants(), seed);
  EXPECT_EQ(hunt.surprises(), "");
}

}  // namespace
}  // namespace cairn::crash
