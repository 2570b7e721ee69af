// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <semaphore>
#include <vector>

#include "coord/simulated_network.hpp"
#include "crash/simulated_machine.hpp"

namespace cairn::crash {

/// Lets the ranks of a job run in turns that follow from a seed: bursts of system calls, one rank at a time. Between
/// them packets arrive and simulated time goes on.
///
/// Each rank has a thread, of which all but one wait; so nothing here needs a lock.
class RankSchedule final : public Scheduler {
 public:
  /// Told before each call how many there were in all, with this one. Must not throw.
  using Watcher = std::function<void(int calls)>;

  RankSchedule(testing::SimulatedNetwork& network, std::uint64_t seed) : network_(network), random_(seed) {}

  /// Runs each program on a thread until all have ended. Programs must not throw.
  void run(const std::vector<std::function<void()>>& programs, Watcher watcher);

  /// Does not let a rank run until `may_go_on`, whatever it waits for itself.
  void hold(int rank, std::function<bool()> may_go_on);
  /// Packets and time are quicker than programs from here on: silence is noticed while others still go on.
  void hurry();

  void begin(int rank) override;
  void end(int /*rank*/) override {}
  /// Lets the others run until `is_ready`, which their calls or a packet may change.
  void wait(int rank, std::function<bool()> is_ready);

  /// Of all ranks.
  [[nodiscard]] int calls() const { return calls_; }

 private:
  struct Rank {
    std::binary_semaphore turn{0};
    std::function<bool()> is_ready = [] { return true; };
    std::function<bool()> may_go_on;  ///< Empty: it is not held.
    bool has_ended = false;
  };

  static constexpr std::size_t kNobody = ~std::size_t{0};

  [[nodiscard]] static bool can_run(Rank& rank);
  /// Who is next; kNobody when all have ended.
  [[nodiscard]] std::size_t pick();
  /// Hands the turn on, and returns when it is this one's again, or at once when this one has ended.
  void pass(std::size_t from);
  void step_network();

  testing::SimulatedNetwork& network_;
  std::mt19937_64 random_;
  Watcher watcher_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  int calls_ = 0;
  std::uint64_t longest_burst_ = 12;
  std::uint64_t left_of_burst_ = 0;
  std::uint64_t network_of_8_ = 3;  ///< How often time goes on rather than a rank, while one waits.
  bool is_hurried_ = false;
};

}  // namespace cairn::crash
