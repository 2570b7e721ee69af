// SPDX-License-Identifier: Apache-2.0
#include "crash/rank_schedule.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include <fmt/core.h>

namespace cairn::crash {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kStep = 300us;      // A packet takes up to a millisecond.
constexpr std::chrono::nanoseconds kHurriedStep = 1s;  // A rank counts as lost after two.
constexpr std::chrono::nanoseconds kForEver = 1h;      // Nobody waits as long, unless it waits for nothing.

}  // namespace

void RankSchedule::run(const std::vector<std::function<void()>>& programs, Watcher watcher) {
  watcher_ = std::move(watcher);
  ranks_.clear();
  std::generate_n(std::back_inserter(ranks_), programs.size(), [] { return std::make_unique<Rank>(); });
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    threads.emplace_back([this, rank, &programs] {
      ranks_[rank]->turn.acquire();
      programs[rank]();
      ranks_[rank]->has_ended = true;
      pass(rank);
    });
  }
  ranks_[pick()]->turn.release();
  for (std::thread& thread : threads) {
    thread.join();
  }
}

void RankSchedule::hurry() {
  is_hurried_ = true;
  network_of_8_ = 3 + random_() % 5;
  longest_burst_ = 1 + random_() % 12;
  left_of_burst_ = 0;
}

void RankSchedule::step_network() {
  const std::chrono::nanoseconds most = is_hurried_ ? kHurriedStep : kStep;
  network_.run(most / 8 * static_cast<std::int64_t>(1 + random_() % 8));
}

void RankSchedule::hold(int rank, std::function<bool()> may_go_on) {
  ranks_[static_cast<std::size_t>(rank)]->may_go_on = std::move(may_go_on);
}

bool RankSchedule::can_run(Rank& rank) {
  if (rank.may_go_on && rank.may_go_on()) {
    rank.may_go_on = nullptr;
  }
  return !rank.may_go_on && rank.is_ready();
}

std::size_t RankSchedule::pick() {
  const std::chrono::nanoseconds begin = network_.now();
  while (true) {
    std::vector<std::size_t> ready;
    bool has_waiting = false;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank]->has_ended) {
        continue;
      }
      if (can_run(*ranks_[rank])) {
        ready.push_back(rank);
      } else {
        has_waiting = true;
      }
    }
    if (ready.empty() && !has_waiting) {
      return kNobody;
    }
    if (!ready.empty() && (!has_waiting || random_() % 8 >= network_of_8_)) {
      return ready[random_() % ready.size()];
    }
    step_network();
    if (network_.now() - begin > kForEver) {
      fmt::print(stderr, "ranks wait for something that will never happen\n");
      std::abort();
    }
  }
}

void RankSchedule::pass(std::size_t from) {
  const std::size_t next = pick();
  left_of_burst_ = 1 + random_() % longest_burst_;
  if (next == from || next == kNobody) {
    return;
  }
  const bool has_ended = ranks_[from]->has_ended;
  ranks_[next]->turn.release();
  if (!has_ended) {
    ranks_[from]->turn.acquire();
  }
}

void RankSchedule::begin(int rank) {
  watcher_(++calls_);
  if (left_of_burst_ > 0) {
    --left_of_burst_;
    return;
  }
  pass(static_cast<std::size_t>(rank));
}

void RankSchedule::wait(int rank, std::function<bool()> is_ready) {
  Rank& own = *ranks_[static_cast<std::size_t>(rank)];
  own.is_ready = std::move(is_ready);
  if (!own.is_ready()) {
    pass(static_cast<std::size_t>(rank));
  }
  own.is_ready = [] { return true; };
}

}  // namespace cairn::crash
