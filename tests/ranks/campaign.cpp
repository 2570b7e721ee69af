// SPDX-License-Identifier: Apache-2.0
#include "ranks/campaign.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "ranks/job_history.hpp"
#include "ranks/player.hpp"
#include "ranks/story.hpp"
#include "support/number_from.hpp"
#include "support/temp_dir.hpp"

namespace cairn::ranks {
namespace {

void play_one(std::uint64_t seed, std::mutex& mutex, Figures& figures) {
  const testing::TempDir folder;
  const Story story(seed);
  JobHistory history(story, testing::number_from("CAIRN_RANKS_STORY", 0) != 0);
  Player player(story, folder.path(), history);
  player.play();
  const std::lock_guard lock(mutex);
  figures.saves += story.steps.size();
  figures.failures += player.failures();
  figures.slow_calls += player.slow_calls();
  for (const auto& [end, times] : history.ends()) {
    figures.ends[end] += times;
  }
  if (const std::string lies = history.lies(); !lies.empty()) {
    ++figures.lies;
    figures.first_lie +=
        figures.first_lie.empty() ? fmt::format("seed {}: {}\n{}", seed, lies, history.text()) : "";
  }
}

}  // namespace

Figures play_jobs(std::span<const std::uint64_t> seeds, std::size_t at_once) {
  Figures figures;
  std::mutex mutex;
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < std::min(seeds.size(), at_once); ++i) {
    threads.emplace_back([&] {
      for (std::size_t job = next++; job < seeds.size(); job = next++) {
        play_one(seeds[job], mutex, figures);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return figures;
}

}  // namespace cairn::ranks
