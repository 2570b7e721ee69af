// SPDX-License-Identifier: Apache-2.0
// Programs that add the parts of a checkpoint are killed, and others go on, until the checkpoint is there: no part
// that one was told of may be lost, nothing may be there too early, and the checkpoint holds all. In every other pair
// of checkpoints calls of the system are slow. Prints a line with the counts for each test.
//
// CAIRN_PARTS_ROUNDS: how many checkpoints (40 when unset, and a third of it by two programs beside each other);
// CAIRN_KILL_SEED: where the random moments begin.
#include "kill/parts.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/api/find.hpp"
#include "cairn/api/load.hpp"
#include "cairn/api/maintain.hpp"
#include "cairn/training/partial_save.hpp"

#include "support/number_from.hpp"
#include "support/process.hpp"
#include "support/sampling.hpp"
#include "support/temp_dir.hpp"

namespace cairn::kill {
namespace {

using cairn::testing::Process;
using ::testing::IsEmpty;

constexpr std::uint64_t kRounds = 12;
constexpr std::uint64_t kParts = 8;

class PartsTest : public ::testing::Test {
 protected:
  PartsTest() : random_(seed_) {}

  [[nodiscard]] std::vector<std::string> arguments(std::uint64_t round, std::uint64_t first,
                                                   std::uint64_t every) {
    return {target().string(),
            round % 2 == 1 ? "threads" : "automatic",
            std::to_string(random_() >> 1),
            round / 2 % 2 == 1 ? "20" : "quick",
            std::to_string(first),
            std::to_string(every),
            std::to_string(kParts)};
  }

  [[nodiscard]] std::filesystem::path target() const { return root_ / "whole"; }

  /// About as long as the program of such a round takes, at most.
  void sleep_a_while(std::uint64_t round) {
    const int most = round / 2 % 2 == 1 ? 600'000 : 60'000;
    std::this_thread::sleep_for(
        std::chrono::microseconds(std::uniform_int_distribution<int>(0, most)(random_)));
  }

  /// Reads what a program has said. Returns whether it has made the checkpoint.
  bool heed(const std::vector<std::string>& lines) {
    bool is_finalized = false;
    for (const std::string& line : lines) {
      const std::size_t space = line.find(' ');
      const std::string word = line.substr(0, space);
      const std::uint64_t number =
          space == std::string::npos ? 0 : std::strtoull(line.c_str() + space, nullptr, 10);
      if (word == "found") {
        EXPECT_GE(number, added_) << "a part is lost";
        found_ = number;
      } else if (word == "added") {
        ++added_;
      } else if (word == "finalized") {
        is_finalized = true;
      } else {
        EXPECT_EQ(word, "known") << line;
      }
    }
    added_ = std::max(added_, found_);
    return is_finalized;
  }

  /// Returns whether the checkpoint is there, whole. Nobody finds one before.
  [[nodiscard]] bool is_there() {
    const std::vector<FoundCheckpoint> all = list_checkpoints(root_.path(), {}, context_);
    if (all.empty()) {
      return false;
    }
    EXPECT_EQ(all.size(), 1u);
    const Tree state = load(target(), {}, context_);
    EXPECT_EQ(state.size(), kParts);
    for (std::uint64_t number = 0; number < kParts; ++number) {
      const std::string name = "part" + std::to_string(number);
      EXPECT_EQ(state.at(name), part(number).at(name));
    }
    return true;
  }

  /// Removes it; nothing else may be there once a recovery has cleaned.
  void begin_anew() {
    recover(root_.path(), {}, context_);
    remove_checkpoint(target(), {}, context_);
    EXPECT_TRUE(std::filesystem::is_empty(root_.path()));
    added_ = 0;
    found_ = 0;
  }

  const std::uint64_t seed_ = testing::number_from("CAIRN_KILL_SEED", testing::first_number());
  const std::uint64_t rounds_ = testing::number_from("CAIRN_PARTS_ROUNDS", kRounds);
  const cairn::testing::TempDir root_;
  const Context context_;
  std::mt19937_64 random_;
  std::uint64_t added_ = 0;  // Of this checkpoint, at least.
  std::uint64_t found_ = 0;
};

TEST_F(PartsTest, AreNotLostWhenTheirProgramIsKilled) {
  std::uint64_t kills = 0;
  for (std::uint64_t round = 0; round < rounds_; ++round) {
    bool is_done = false;
    for (std::uint64_t tries = 0; !is_done; ++tries) {
      ASSERT_LT(tries, 1000u);
      Process process(CAIRN_PART_ADDER, arguments(round, 0, 1));
      process.await_first_word();
      sleep_a_while(round);
      process.signal(SIGKILL);
      ++kills;
      is_done = heed(process.finish());
      const bool has_remains = std::filesystem::exists(root_ / ".partial-whole");
      is_done = is_there() && (is_done || !has_remains);
      ASSERT_FALSE(HasFailure()) << "round " << round;
    }
    ASSERT_NO_FATAL_FAILURE(begin_anew()) << "round " << round;
  }
  fmt::print("trainings: {} checkpoints in parts, {} kills, 0 lost (seed {})\n", rounds_, kills, seed_);
}

TEST_F(PartsTest, AreAddedByTwoBesideEachOther) {
  const std::uint64_t rounds = (rounds_ + 2) / 3;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (const bool are_killed : {true, true, false}) {
      std::deque<Process> processes;
      for (const std::uint64_t first : {0, 1}) {
        processes.emplace_back(CAIRN_PART_ADDER, arguments(round, first, 2));
      }
      if (are_killed) {
        sleep_a_while(round);
        std::for_each(processes.begin(), processes.end(), [](Process& each) { each.signal(SIGKILL); });
      }
      for (Process& process : processes) {
        for (const std::string& line : process.finish()) {
          EXPECT_FALSE(line.starts_with("failed")) << line;
        }
      }
      EXPECT_FALSE(is_there());
    }
    PartialSave partial(target(), {}, context_);
    EXPECT_EQ(partial.parts(), kParts);
    partial.finalize();
    ASSERT_TRUE(is_there());
    ASSERT_NO_FATAL_FAILURE(begin_anew());
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  fmt::print("trainings: {} checkpoints in parts by two programs, 0 lost (seed {})\n", rounds, seed_);
}

}  // namespace
}  // namespace cairn::kill
