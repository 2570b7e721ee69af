// SPDX-License-Identifier: Apache-2.0
// A process that saves is killed again and again; after each time, all it was told must be true of the disk. In every
// other pair of cycles its calls of the system are slow. Prints one line with the counts.
//
// CAIRN_KILL_CYCLES: how often (50 when unset); CAIRN_KILL_SEED: where the random moments begin; CAIRN_KILL_SLOWEST:
// how many milliseconds a slow call takes at most (20 when unset).
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kill/ledger.hpp"
#include "support/number_from.hpp"
#include "support/process.hpp"
#include "support/sampling.hpp"
#include "support/temp_dir.hpp"

namespace cairn::kill {
namespace {

constexpr std::uint64_t kCycles = 50;         // Of a commit; tests/run --long kill has 10,000.
constexpr int kLongestMicroseconds = 60'000;  // About ten saves.
constexpr std::uint64_t kSlowestMilliseconds = 20;

class KillTest : public ::testing::Test {
 protected:
  void run_until_killed(bool by_threads, const std::string& world) {
    cairn::testing::Process process(CAIRN_VICTIM,
                                    {root_.path().string(), by_threads ? "threads" : "automatic",
                                     std::to_string(ledger_.last() + 1), world});
    process.await_first_word();
    const int slowest = std::max(static_cast<int>(std::strtol(world.c_str(), nullptr, 10)), 0) * 1000;
    std::uniform_int_distribution<int> delay(0, kLongestMicroseconds + slowest);
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

  std::string complaint() { return ledger_.ended() + ledger_.complaint(root_.path(), context_); }

  /// What is said of a library that lies, after some lies of it.
  std::string complaint_of(const std::string& liar) {
    constexpr int kLies = 3;
    cairn::testing::Process process(CAIRN_VICTIM, {root_.path().string(), "threads", "1", liar});
    std::vector<std::string> said;
    for (int lies = 0; lies < kLies;) {
      said.push_back(process.next_line());
      const std::string& line = said.back();
      const bool is_lie = line.starts_with("done") || line.ends_with("Input/output error");
      const bool has_ended = line.empty() || line.starts_with("ended");
      lies += is_lie ? 1 : has_ended ? kLies : 0;
    }
    process.signal(SIGKILL);
    static_cast<void>(process.finish());
    ledger_.read(said);
    return complaint();
  }

  const cairn::testing::TempDir root_;
  const Context context_;
  Ledger ledger_;
  std::mt19937_64 random_;
};

TEST_F(KillTest, MakesNothingUntrueThatTheProcessWasTold) {
  const std::uint64_t cycles = testing::number_from("CAIRN_KILL_CYCLES", kCycles);
  const std::uint64_t seed = testing::number_from("CAIRN_KILL_SEED", testing::first_number());
  const std::string slowest =
      std::to_string(testing::number_from("CAIRN_KILL_SLOWEST", kSlowestMilliseconds));
  random_.seed(seed);

  for (std::uint64_t cycle = 0; cycle < cycles; ++cycle) {
    run_until_killed(cycle % 2 == 1, cycle / 2 % 2 == 1 ? slowest : "quick");
    ASSERT_EQ(complaint(), "") << "cycle " << cycle;
  }

  fmt::print("kill: {} cycles, {} saves, {} failed, {} unknown, {} interrupted, 0 lies (seed {})\n", cycles,
             ledger_.saves(), ledger_.refused(), ledger_.unknown(), ledger_.interrupted(), seed);
  EXPECT_GT(ledger_.interrupted(), cycles / 2);
}

TEST_F(KillTest, FindsASaveThatWasSaidToBeCommittedAndIsNot) {
  EXPECT_THAT(complaint_of("forgotten"), ::testing::HasSubstr("lost: "));
}

TEST_F(KillTest, FindsASaveThatWasSaidToHaveFailedAndIsThere) {
  // What a lie leaves may be gone again when the process is killed: the next save of its target takes its place.
  std::string complaint;
  for (int tries = 0; tries < 20 && complaint.find("zombie: ") == std::string::npos; ++tries) {
    complaint += complaint_of("undead");
  }
  EXPECT_THAT(complaint, ::testing::HasSubstr("zombie: "));
}

}  // namespace
}  // namespace cairn::kill
