// SPDX-License-Identifier: Apache-2.0
// A process that saves is killed again and again; after each time, all it said to be saved must be there. Prints one
// line with the counts.
//
// CAIRN_KILL_CYCLES: how often (200 when unset); CAIRN_KILL_SEED: where the random moments begin.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <random>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kill/ledger.hpp"
#include "support/number_from.hpp"
#include "support/process.hpp"
#include "support/temp_dir.hpp"

namespace cairn::kill {
namespace {

constexpr std::uint64_t kCycles = 200;
constexpr int kLongestMicroseconds = 60'000;  // About ten saves.

class KillTest : public ::testing::Test {
 protected:
  void run_until_killed(bool by_threads) {
    cairn::testing::Process process(
        CAIRN_VICTIM,
        {root_.path().string(), by_threads ? "threads" : "automatic", std::to_string(ledger_.last() + 1)});
    process.await_first_word();
    std::uniform_int_distribution<int> delay(0, kLongestMicroseconds);
    std::this_thread::sleep_for(std::chrono::microseconds(delay(random_)));
    switch (random_() % 4) {
      case 0:
        process.signal(SIGTERM);
        break;
      case 1:  // Held for a while in the middle of something: a clock that jumps, for the process.
        process.signal(SIGSTOP);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        process.signal(SIGCONT);
        std::this_thread::sleep_for(std::chrono::microseconds(delay(random_) / 10));
        process.signal(SIGKILL);
        break;
      default:
        process.signal(SIGKILL);
    }
    ledger_.read(process.finish());
  }

  const cairn::testing::TempDir root_;
  const Context context_;
  Ledger ledger_;
  std::mt19937_64 random_;
};

TEST_F(KillTest, LosesNothingThatWasSaidToBeSaved) {
  const std::uint64_t cycles = testing::number_from("CAIRN_KILL_CYCLES", kCycles);
  const std::uint64_t seed = testing::number_from("CAIRN_KILL_SEED", 1);
  random_.seed(seed);

  for (std::uint64_t cycle = 0; cycle < cycles; ++cycle) {
    run_until_killed(cycle % 2 == 1);
    ASSERT_EQ(ledger_.complaint(root_.path(), context_), "") << "cycle " << cycle;
  }

  fmt::print("kill: {} cycles, {} saves, {} interrupted, 0 lost (seed {})\n", cycles, ledger_.saves(),
             ledger_.interrupted(), seed);
  EXPECT_GT(ledger_.interrupted(), cycles / 2);
}

}  // namespace
}  // namespace cairn::kill
