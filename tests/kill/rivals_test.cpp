// SPDX-License-Identifier: Apache-2.0
// Processes that save to one root, each to a name of its own and all of them to one, are killed, each at its own
// moment, while one more recovers the root all the time. After each round, all they were told must be true of the
// disk. In every other pair of rounds their calls of the system are slow. Prints one line with the counts.
//
// CAIRN_KILL_CYCLES: how many rounds (40 when unset); CAIRN_KILL_SEED: where the random moments begin;
// CAIRN_KILL_SLOWEST: how many milliseconds a slow call takes at most (20 when unset).
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "io/internal/syscalls.hpp"
#include "kill/state.hpp"
#include "store/internal/recovery.hpp"
#include "support/number_from.hpp"
#include "support/process.hpp"
#include "support/sampling.hpp"
#include "support/temp_dir.hpp"

namespace cairn::kill {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kRounds = 20;
constexpr std::size_t kRivals = 3;
constexpr std::int64_t kNumbersEach = 10'000;  // More saves than a rival can make in a round.
constexpr std::uint64_t kLongestRoundMicroseconds = 120'000;
constexpr std::uint64_t kSlowestInARoundMilliseconds = 20;

/// What one rival may have left under each name: its last save that was done, and the one it was at.
struct Account {
  std::map<std::string, std::set<std::int64_t>> may_hold;
  std::set<std::string> done;  ///< The names under which something was saved.
  std::string failure;
};

class RivalsTest : public ::testing::Test {
 protected:
  /// Starts all, kills each at its moment, and reads what they said.
  void run_round(bool by_threads, const std::string& world) {
    const std::string engine = by_threads ? "threads" : "automatic";
    std::deque<cairn::testing::Process> processes;
    for (std::size_t i = 0; i < kRivals; ++i) {
      processes.emplace_back(
          CAIRN_RIVAL,
          std::vector<std::string>{root_.path().string(), engine, std::to_string(next_), own_name(i), world});
      next_ += kNumbersEach;
    }
    processes.emplace_back(CAIRN_RIVAL, std::vector<std::string>{root_.path().string(), "recover"});
    kill_each(processes);
    for (std::size_t i = 0; i < kRivals; ++i) {
      accounts_[i] = read(processes[i].finish());
    }
    const std::vector<std::string> said = processes.back().finish();
    recoveries_ += said.size();
    recovery_failure_ = !said.empty() && said.back() != "recovery" ? said.back() : "";
  }

  void kill_each(std::deque<cairn::testing::Process>& processes) {
    std::vector<std::pair<std::uint64_t, cairn::testing::Process*>> moments;
    for (cairn::testing::Process& process : processes) {
      process.await_first_word();
      moments.emplace_back(random_() % kLongestRoundMicroseconds, &process);
    }
    std::sort(moments.begin(), moments.end());
    std::uint64_t now = 0;
    for (const auto& [moment, process] : moments) {
      std::this_thread::sleep_for(std::chrono::microseconds(moment - std::exchange(now, moment)));
      process->signal(SIGKILL);
    }
  }

  Account read(const std::vector<std::string>& lines) {
    Account account;
    std::string name;
    std::int64_t number = 0;
    for (const std::string& line : lines) {
      if (line.starts_with("save ")) {
        std::istringstream(line.substr(5)) >> name >> number;
        account.may_hold[name].insert(number);
        ++saves_;
      } else if (line == "done") {
        account.may_hold[name] = {number};
        account.done.insert(name);
      } else if (line == "refused") {
        account.may_hold[name].erase(number);
        ++refused_;
      } else if (line == "unknown") {  // As if nobody had been told.
        ++unknown_;
      } else {
        account.failure += line + "\n";
      }
    }
    interrupted_ += !lines.empty() && lines.back().starts_with("save ") ? 1 : 0;
    return account;
  }

  /// What is wrong with what is there; empty when nothing is.
  std::string complaint() {
    std::string text = recovery_failure_;
    store::recover(io::posix_syscalls(), root_.path());
    for (const fs::directory_entry& entry : fs::directory_iterator(root_.path())) {
      if (names().count(entry.path().filename().string()) == 0) {
        text += fmt::format("{} is left\n", entry.path().string());
      }
    }
    for (const std::string& name : names()) {
      text += complaint_about(name);
    }
    for (const Account& account : accounts_) {
      text += account.failure;
    }
    return text;
  }

  std::string complaint_about(const std::string& name) {
    std::set<std::int64_t> allowed;
    bool is_replaced = false;
    for (Account& account : accounts_) {
      allowed.merge(account.may_hold[name]);
      is_replaced = is_replaced || account.done.count(name) == 1;
    }
    if (!is_replaced) {
      allowed.insert(held_[name]);
    }
    std::int64_t found = 0;  // Nothing.
    if (fs::exists(root_ / name)) {
      const Tree tree = load(root_ / name, {}, context_);
      found = tree.at("number").as<std::int64_t>();
      if (tree != state(found)) {
        return fmt::format("{}: wrong bytes\n", name);
      }
    }
    held_[name] = found;
    return allowed.count(found) == 1 ? "" : fmt::format("{} holds {}\n", name, found);
  }

  static std::string own_name(std::size_t rival) { return fmt::format("own_{}", rival); }

  static const std::set<std::string>& names() {
    static const std::set<std::string> all{"own_0", "own_1", "own_2", "shared"};
    return all;
  }

  const cairn::testing::TempDir root_;
  const Context context_;
  std::mt19937_64 random_;
  std::int64_t next_ = 1;
  std::array<Account, kRivals> accounts_;
  std::string recovery_failure_;
  std::map<std::string, std::int64_t> held_;  // Before the round; 0: nothing.
  std::uint64_t saves_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t unknown_ = 0;
  std::uint64_t interrupted_ = 0;
  std::uint64_t recoveries_ = 0;
};

TEST_F(RivalsTest, MakeNothingUntrueThatOneOfThemWasTold) {
  const std::uint64_t rounds = testing::number_from("CAIRN_KILL_CYCLES", kRounds);
  const std::uint64_t seed = testing::number_from("CAIRN_KILL_SEED", testing::first_number());
  const std::string slowest =
      std::to_string(testing::number_from("CAIRN_KILL_SLOWEST", kSlowestInARoundMilliseconds));
  random_.seed(seed);

  for (std::uint64_t round = 0; round < rounds; ++round) {
    run_round(round % 2 == 1, round / 2 % 2 == 1 ? slowest : "quick");
    ASSERT_EQ(complaint(), "") << "round " << round;
  }

  fmt::print(
      "kill: {} rounds of three rivals and a recovery, {} saves, {} failed, {} unknown, {} interrupted, {} "
      "recoveries, 0 lies (seed {})\n",
      rounds, saves_, refused_, unknown_, interrupted_, recoveries_, seed);
  EXPECT_GT(interrupted_, rounds);
}

}  // namespace
}  // namespace cairn::kill
