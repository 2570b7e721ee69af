// SPDX-License-Identifier: Apache-2.0
// All scenes in many states: prints one line with the counts.
//
// CAIRN_CRASH_STATES: how many states (120,000 when unset); CAIRN_CRASH_SEED: where the random ones begin;
// CAIRN_CRASH_ONLY: part of the names of the scenes to play.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "crash/crash_enumerator.hpp"
#include "crash/joint_scenes.hpp"
#include "crash/scenes.hpp"
#include "support/number_from.hpp"
#include "support/sampling.hpp"

namespace cairn::crash {
namespace {

constexpr std::uint64_t kStates = 120'000;

/// Plays scenes one after the other; several threads may.
class Census {
 public:
  Census(std::uint64_t states, std::uint64_t seed, std::string_view only) : states_(states), seed_(seed) {
    const auto is_wanted = [only](const std::string& name) { return name.find(only) != std::string::npos; };
    for (const Scene& each : all_scenes()) {
      if (is_wanted(each.name)) {
        scenes_.emplace_back(
            [&each](const EnumerationOptions& options) { return Enumerator(each, options).run(); });
      }
    }
    for (const MishapScene& each : mishap_scenes()) {
      if (is_wanted(each.name)) {
        scenes_.emplace_back([&each](const EnumerationOptions& options) { return enumerate(each, options); });
      }
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (next_scene_ < scenes_.size()) {
      EnumerationOptions options;
      options.seed = seed_;
      // What small scenes have left falls to the later ones.
      options.states = (states_ - std::min(states_, total_.states)) / (scenes_.size() - finished_) + 1;
      const auto& play = scenes_[next_scene_++];
      lock.unlock();
      const EnumerationReport report = play(options);
      lock.lock();
      ++finished_;
      total_.add(report);
    }
  }

  [[nodiscard]] const EnumerationReport& total() const { return total_; }

 private:
  const std::uint64_t states_;
  const std::uint64_t seed_;
  std::vector<std::function<EnumerationReport(const EnumerationOptions&)>> scenes_;
  std::mutex mutex_;  // Guards what follows.
  std::size_t next_scene_ = 0;
  std::size_t finished_ = 0;
  EnumerationReport total_;
};

TEST(CrashStates, AreAllTheOldOrTheNewCheckpoint) {
  const std::uint64_t states = testing::number_from("CAIRN_CRASH_STATES", testing::share_of(kStates));
  const std::uint64_t seed = testing::number_from("CAIRN_CRASH_SEED", testing::first_number());
  const char* only = std::getenv("CAIRN_CRASH_ONLY");
  Census census(states, seed, only == nullptr ? "" : only);

  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&census] { census.work(); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  fmt::print("crash: {} states, {} lost (seed {})\n", census.total().states, census.total().failures, seed);
  EXPECT_EQ(census.total().failures, 0u) << census.total().first_failure;
  EXPECT_GE(census.total().states, states);
}

}  // namespace
}  // namespace cairn::crash
