// SPDX-License-Identifier: Apache-2.0
// Threads that save, load, cancel, remove, recover and end contexts beside each other. Prints one line with the counts.
//
// CAIRN_STRESS_ACTS: how many acts of each thread (100 when unset); CAIRN_STRESS_SEED: where the random ones begin;
// CAIRN_STRESS_SLOWEST: how many milliseconds a call of the system takes at most (30 when unset).
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "io/internal/syscalls.hpp"
#include "store/internal/recovery.hpp"
#include "stress/actor.hpp"
#include "support/lying_renames.hpp"
#include "support/number_from.hpp"
#include "support/sampling.hpp"
#include "support/temp_dir.hpp"

namespace cairn::stress {
namespace {

constexpr int kActors = 4;

std::ptrdiff_t count_entries(const char* directory) {
  return std::distance(std::filesystem::directory_iterator(directory), {});
}

struct Open {
  Open() = default;

  std::ptrdiff_t files = count_entries("/proc/self/fd");
  std::ptrdiff_t threads = count_entries("/proc/self/task");

  [[nodiscard]] bool exceeds(const Open& other) const {
    return files > other.files || threads > other.threads;
  }
};

/// Returns what is open now, or as soon as it is no more than was expected: operations that nobody waited for may still
/// be going.
Open settled(const Open& expected) {
  constexpr std::chrono::seconds kPatience{20};
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (Open().exceeds(expected) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

Tally play(const World& world, std::uint64_t acts, std::uint64_t seed) {
  std::vector<std::unique_ptr<Actor>> actors;
  std::vector<std::thread> threads;
  for (int number = 0; number < kActors; ++number) {
    Actor& actor = *actors.emplace_back(std::make_unique<Actor>(world, number, seed));
    threads.emplace_back([&actor, acts] {
      for (std::uint64_t i = 0; i < acts; ++i) {
        actor.act();
      }
    });
  }
  Tally total;
  for (int number = 0; number < kActors; ++number) {
    threads[static_cast<std::size_t>(number)].join();
    total.add(actors[static_cast<std::size_t>(number)]->tally());
  }
  return total;
}

std::uint64_t sum(const std::map<std::string, std::uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0},
                         [](std::uint64_t all, const auto& one) { return all + one.second; });
}

class Stress : public ::testing::Test {
 protected:
  void play_for_what_is_opened_once() {
    const testing::TempDir other;
    testing::Chronicle chronicle;
    const World world{other.path(), chronicle, world_.slowest, {}};
    fill_root(world);
    play(world, 1, seed_);
  }

  /// Compares what is there with what may be there, before and after a recovery, and names what it leaves.
  std::string complaint_at_the_end() {
    chronicle_.settle();
    look_at_all(world_);
    static_cast<void>(store::recover(io::posix_syscalls(), root_.path()));
    look_at_all(world_);
    const std::vector<std::string> targets = chronicle_.targets();
    std::string text;
    for (const auto& entry : std::filesystem::directory_iterator(root_.path())) {
      const std::string name = entry.path().filename();
      if (std::find(targets.begin(), targets.end(), name) == targets.end()) {
        text += name + " is left\n";
      }
    }
    return text;
  }

  const testing::TempDir root_;
  testing::Chronicle chronicle_;
  World world_{root_.path(),
               chronicle_,
               std::chrono::milliseconds(testing::number_from("CAIRN_STRESS_SLOWEST", 30)),
               {}};
  const std::uint64_t seed_ = testing::number_from("CAIRN_STRESS_SEED", testing::first_number());
};

TEST_F(Stress, KeepsEveryPromiseAndLeavesNothing) {
  const std::uint64_t acts = testing::number_from("CAIRN_STRESS_ACTS", 100);
  fill_root(world_);
  const Open at_first;
  play_for_what_is_opened_once();
  const Open before = settled(at_first);

  const Tally total = play(world_, acts, seed_);

  const Open after = settled(before);
  EXPECT_EQ(complaint_at_the_end(), "");
  for (const auto& [outcome, times] : total.outcomes) {
    fmt::print("  {:>7}  {}\n", times, outcome);
  }
  fmt::print("stress: {} acts, {} slow calls, {} lies, {} files and {} threads left open (seed {})\n",
             acts * kActors, total.slow_calls, sum(chronicle_.lies()), after.files - before.files,
             after.threads - before.threads, seed_);
  EXPECT_EQ(total.first_problem, "");
  EXPECT_EQ(chronicle_.first_lies(), "");
  EXPECT_LE(after.files, before.files);
  EXPECT_LE(after.threads, before.threads);
}

/// The lies that are found of a library that tells them.
std::map<std::string, std::uint64_t> lies_of(testing::RenameLie lie) {
  const testing::TempDir root;
  testing::Chronicle chronicle;
  World world{root.path(), chronicle, std::chrono::milliseconds(30), {}};
  fill_root(world);
  world.broken_calls = [lie] { return std::make_shared<testing::LyingRenames>(lie); };
  play(world, 10, 1);
  chronicle.settle();
  look_at_all(world);
  return chronicle.lies();
}

TEST(StressOfALiar, FindsSavesThatAreSaidToBeCommittedAndAreNot) {
  std::map<std::string, std::uint64_t> lies = lies_of(testing::RenameLie::forgotten);

  EXPECT_GT(lies["lost"] + lies["damage"], 0U);
}

TEST(StressOfALiar, FindsSavesThatAreSaidToHaveFailedAndAppearLater) {
  EXPECT_GT(lies_of(testing::RenameLie::undead)["zombie"], 0U);
}

}  // namespace
}  // namespace cairn::stress
