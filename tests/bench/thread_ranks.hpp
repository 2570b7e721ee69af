// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/testing/local_ranks.hpp"

namespace cairn::bench {

/// Ranks that are threads: what they tell each other goes through memory.
class ThreadRanks {
 public:
  explicit ThreadRanks(std::size_t count, std::size_t staging_bytes = std::size_t{256} << 20)
      : network_(count) {
    for (std::size_t rank = 0; rank < count; ++rank) {
      ContextOptions options;
      options.staging_bytes = staging_bytes / count;
      options.worker_threads = 1;
      options.coordinator = std::make_shared<coord::Coordinator>(network_.transport(rank));
      contexts_.push_back(std::make_unique<Context>(std::move(options)));
    }
  }

  /// Calls `act` on a thread for each rank; returns the sum of what that returns.
  std::uint64_t on_all(
      const std::function<std::uint64_t(std::size_t rank, const Context& context)>& act) const {
    std::vector<std::future<std::uint64_t>> calls;
    for (std::size_t rank = 0; rank < contexts_.size(); ++rank) {
      calls.push_back(std::async(std::launch::async, [&, rank] { return act(rank, *contexts_[rank]); }));
    }
    std::uint64_t sum = 0;
    for (std::future<std::uint64_t>& each : calls) {
      sum += each.get();
    }
    return sum;
  }

 private:
  testing::LocalRanks network_;
  std::vector<std::unique_ptr<Context>> contexts_;
};

}  // namespace cairn::bench
