// SPDX-License-Identifier: Apache-2.0
// Threads that save, load, cancel, remove, recover and end contexts beside each other. Prints one line with the counts.
//
// CAIRN_STRESS_ACTS: how many acts of each thread (100 when unset); CAIRN_STRESS_SEED: where the random ones begin.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "stress/actor.hpp"
#include "support/number_from.hpp"
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

/// What is open now, or as soon as it is no more than was expected: operations that nobody waited for may still be going.
Open settled(const Open& expected) {
  constexpr std::chrono::seconds kPatience{20};
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (Open().exceeds(expected) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

Tally play(const std::filesystem::path& root, std::uint64_t acts, std::uint64_t seed) {
  std::vector<std::unique_ptr<Actor>> actors;
  std::vector<std::thread> threads;
  for (int number = 0; number < kActors; ++number) {
    Actor& actor = *actors.emplace_back(std::make_unique<Actor>(root, number, seed));
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

TEST(Stress, GivesWholeCheckpointsAndKnownErrorsOnly) {
  const std::uint64_t acts = testing::number_from("CAIRN_STRESS_ACTS", 100);
  const std::uint64_t seed = testing::number_from("CAIRN_STRESS_SEED", 1);
  const testing::TempDir root;
  fill_root(root.path());
  {
    const testing::TempDir other;
    fill_root(other.path());
    play(other.path(), 1, seed);  // For what a process opens once and keeps.
  }
  const Open before;

  const Tally total = play(root.path(), acts, seed);

  const Open after = settled(before);

  for (const auto& [outcome, times] : total.outcomes) {
    fmt::print("  {:>7}  {}\n", times, outcome);
  }
  fmt::print("stress: {} acts, {} loads of wrong values, {} files and {} threads left open (seed {})\n",
             acts * kActors, total.wrong, after.files - before.files, after.threads - before.threads, seed);
  EXPECT_EQ(total.first_problem, "");
  EXPECT_EQ(total.wrong, 0U);
  EXPECT_LE(after.files, before.files);
  EXPECT_LE(after.threads, before.threads);
}

TEST(Stress, LeavesNothingThatRecoveryDoesNotRemove) {
  const testing::TempDir root;
  fill_root(root.path());
  play(root.path(), 25, testing::number_from("CAIRN_STRESS_SEED", 1) + 1);

  static_cast<void>(io::recover(io::posix_syscalls(), root.path()));

  for (const auto& entry : std::filesystem::directory_iterator(root.path())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
    EXPECT_NO_THROW(static_cast<void>(load(entry.path()))) << entry.path();
  }
}

}  // namespace
}  // namespace cairn::stress
