// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/testing/local_ranks.hpp"

#include "training/fixture.hpp"

namespace cairn::testing {

inline constexpr std::size_t kThree = 3;

/// What a rank has, whose training is under test.
struct Trainer {
  std::size_t rank;
  Context& context;
  ManualClock& clock;
  std::barrier<>& all;  // Where ranks wait for each other, as they do at the sum of gradients.
};

class RanksOfATraining : public TrainingTest {
 protected:
  /// Runs `train` on each rank. Their clocks differ by an hour. Returns what they threw, a line for each.
  std::string on_ranks(const std::function<void(Trainer&)>& train) {
    std::barrier all(kThree);
    return failures_on_ranks(kThree, [&](const std::shared_ptr<coord::Coordinator>& coordinator) {
      auto clock = std::make_shared<ManualClock>();
      clock->advance(std::chrono::hours(coordinator->rank()));
      ContextOptions options = with_clock(clock);
      options.coordinator = coordinator;
      Context context(options);
      Trainer trainer{coordinator->rank(), context, *clock, all};
      train(trainer);
    });
  }

  /// Saves a step, and remembers that this rank did.
  void save(Checkpointer& run, std::size_t rank, std::uint64_t step) {
    const Tree state = {{"step", step}};
    if (run.save(step, {{"state", state}})) {
      const std::lock_guard lock(mutex_);
      saved_[rank].push_back(step);
    }
  }

  /// The steps that all ranks have saved alike.
  std::vector<std::uint64_t> saved() {
    EXPECT_EQ(saved_[0], saved_[1]);
    EXPECT_EQ(saved_[0], saved_[2]);
    return saved_[0];
  }

  [[nodiscard]] std::vector<std::uint64_t> on_disk() const {
    return *StepDirectory(root(), {}, *context_).steps();
  }

  std::mutex mutex_;  // Protects what ranks write here.
  std::map<std::size_t, std::vector<std::uint64_t>> saved_;
};

}  // namespace cairn::testing
