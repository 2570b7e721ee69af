// SPDX-License-Identifier: Apache-2.0
// A process that saves is killed again and again; after each time, all it said to be saved must be there. Prints one
// line with the counts.
//
// CAIRN_KILL_CYCLES: how often (200 when unset); CAIRN_KILL_SEED: where the random moments begin.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cairn/cairn.hpp"
#include "cairn/io/recovery.hpp"

#include "kill/process.hpp"
#include "kill/state.hpp"
#include "support/temp_dir.hpp"

namespace cairn::kill {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kCycles = 200;
constexpr int kLongestMicroseconds = 60'000;  // About ten saves.

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// The number of the save that is there; none: no checkpoint.
using Content = std::optional<std::int64_t>;

/// What may be under each name, after what the process has said.
class Ledger {
 public:
  void read(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      std::istringstream words(line);
      std::string verb;
      words >> verb;
      if (verb == "done") {
        may_hold_[name_] = {target_};
        is_busy_ = false;
        continue;
      }
      words >> name_;
      target_.reset();
      if (verb == "save") {
        words >> last_;
        target_ = last_;
        ++saves_;
      }
      may_hold_[name_].insert(target_);
      is_busy_ = true;
    }
    interrupted_ += is_busy_ ? 1 : 0;
    is_busy_ = false;
  }

  /// What was found is what is there from now on. Returns whether it may be.
  bool settle(const std::string& name, Content found) {
    std::set<Content>& allowed = may_hold_[name];
    const bool is_allowed = allowed.count(found) != 0;
    allowed = {found};
    return is_allowed;
  }

  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& [name, contents] : may_hold_) {
      names.insert(name);
    }
    return names;
  }
  [[nodiscard]] std::int64_t last() const { return last_; }
  [[nodiscard]] std::uint64_t saves() const { return saves_; }
  /// How often the process was in the middle of something when it ended.
  [[nodiscard]] std::uint64_t interrupted() const { return interrupted_; }

  /// Nothing is there when a name is first heard of.
  void expect_none(const std::string& name) { may_hold_[name].insert(std::nullopt); }

 private:
  std::map<std::string, std::set<Content>> may_hold_;
  std::string name_;
  Content target_;
  bool is_busy_ = false;
  std::int64_t last_ = 0;
  std::uint64_t saves_ = 0;
  std::uint64_t interrupted_ = 0;
};

class KillTest : public ::testing::Test {
 protected:
  KillTest() {
    for (const char* name : {"step_0", "step_1", "step_2"}) {
      ledger_.expect_none(name);
    }
  }

  void run_until_killed(bool by_threads) {
    Process process(
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

  /// Returns what is wrong after recovery; empty when nothing is.
  std::string complaint() {
    io::recover(io::posix_syscalls(), root_.path());
    std::string text;
    for (const fs::directory_entry& entry : fs::directory_iterator(root_.path())) {
      if (ledger_.names().count(entry.path().filename().string()) == 0) {
        text += fmt::format("{} is left\n", entry.path().string());
      }
    }
    for (const std::string& name : ledger_.names()) {
      Content found;
      if (fs::exists(root_ / name)) {
        const Tree tree = load(root_ / name, {}, context_);
        found = tree.at("number").as<std::int64_t>();
        text += tree == state(*found) ? "" : fmt::format("{}: wrong bytes\n", name);
      }
      if (!ledger_.settle(name, found)) {
        text += fmt::format("{} holds {}\n", name, found ? std::to_string(*found) : "nothing");
      }
    }
    return text;
  }

  const cairn::testing::TempDir root_;
  const Context context_;
  Ledger ledger_;
  std::mt19937_64 random_;
};

TEST_F(KillTest, LosesNothingThatWasSaidToBeSaved) {
  const std::uint64_t cycles = number_from("CAIRN_KILL_CYCLES", kCycles);
  const std::uint64_t seed = number_from("CAIRN_KILL_SEED", 1);
  random_.seed(seed);

  std::uint64_t failures = 0;
  for (std::uint64_t cycle = 0; cycle < cycles; ++cycle) {
    run_until_killed(cycle % 2 == 1);
    const std::string text = complaint();
    failures += text.empty() ? 0 : 1;
    ASSERT_EQ(text, "") << "cycle " << cycle;
  }

  fmt::print("kill: {} cycles, {} saves, {} interrupted, {} lost (seed {})\n", cycles, ledger_.saves(),
             ledger_.interrupted(), failures, seed);
  EXPECT_GT(ledger_.interrupted(), cycles / 2);
}

}  // namespace
}  // namespace cairn::kill
