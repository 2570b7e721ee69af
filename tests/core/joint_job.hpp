// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cairn/coord/coordinator.hpp"
#include "cairn/testing/local_ranks.hpp"

#include "core/blob_handler.hpp"
#include "core/internal/start.hpp"
#include "core/rank_parts.hpp"
#include "core/stepped_time.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::testing {

/// How a save ended on one rank.
struct RankEnd {
  std::optional<SaveResult> result;
  std::exception_ptr failure;

  void rethrow() const {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
  [[nodiscard]] std::string text() const { return failure ? describe(failure) : "committed"; }
};

/// Whole contexts, one for each rank, in one process.
class JointJob {
 public:
  struct Options {
    Options() = default;
    explicit Options(std::size_t count) : ranks(count) {}

    std::size_t ranks = 3;
    std::size_t fan_out = 16;
    std::chrono::milliseconds lost_after = std::chrono::seconds(30);
    std::chrono::milliseconds heartbeat{50};
    std::chrono::milliseconds stop_grace = std::chrono::seconds(2);
    bool time_stands_still = false;  ///< That of the network, until `let_time_pass`.
    PartHooks hooks;
    decltype(ContextOptions::on_problem) on_problem;
    /// What stands between a rank and the network.
    std::function<std::unique_ptr<coord::Transport>(std::unique_ptr<coord::Transport>)> wire;
  };

  JointJob() : JointJob(Options()) {}
  explicit JointJob(const Options& options)
      : heartbeat_(options.heartbeat), network_(options.ranks), syscalls_(options.ranks) {
    HandlerRegistry registry;
    registry.add<BlobHandler>();
    registry.add(std::make_shared<const PartHandler>(std::make_shared<const PartHooks>(options.hooks)));
    registry_ = registry.snapshot();
    coord::CoordinatorOptions coordinating;
    coordinating.fan_out = options.fan_out;
    coordinating.heartbeat = options.heartbeat;
    coordinating.lost_after = options.lost_after;
    for (std::size_t rank = 0; rank < options.ranks; ++rank) {
      syscalls_[rank] = std::make_shared<RankSyscalls>();
      ContextOptions of_rank;
      of_rank.engine = io::EngineKind::threads;
      of_rank.worker_threads = 1;
      of_rank.staging_bytes = std::size_t{16} << 20;
      of_rank.syscalls = syscalls_[rank];
      of_rank.stop_grace = options.stop_grace;
      of_rank.on_problem = options.on_problem;
      std::unique_ptr<coord::Transport> transport = network_.transport(rank);
      if (options.time_stands_still) {
        transport = time_.slowed(std::move(transport));
      }
      if (options.wire) {
        transport = options.wire(std::move(transport));
      }
      of_rank.coordinator = std::make_shared<coord::Coordinator>(std::move(transport), coordinating);
      contexts_.push_back(std::make_unique<Context>(std::move(of_rank)));
    }
  }

  [[nodiscard]] std::size_t size() const { return contexts_.size(); }
  [[nodiscard]] const Context& context(std::size_t rank) const { return *contexts_[rank]; }
  /// As a process does that ends.
  void close(std::size_t rank) { contexts_[rank].reset(); }
  [[nodiscard]] RankSyscalls& syscalls(std::size_t rank) { return *syscalls_[rank]; }
  [[nodiscard]] const RegistrySnapshot& registry() const { return registry_; }
  LocalRanks& network() { return network_; }
  /// From here on, and as fast as the ranks that live can tell each other so. Called once.
  void let_time_pass() {
    passing_ = std::jthread([this](const std::stop_token& is_over) {
      while (!is_over.stop_requested()) {
        time_.advance(heartbeat_);
      }
    });
  }

  /// Calls `act(rank)` on a thread for each rank, and says how each ended.
  std::vector<RankEnd> on_all(const std::function<SaveResult(std::size_t rank)>& act) {
    std::vector<RankEnd> ends(size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          ends[rank].result = act(rank);
        } catch (...) {
          ends[rank].failure = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    return ends;
  }

  /// Saves "<rank>;" as the part of each rank, and `blob`, which only rank 0 writes.
  SaveResult save(std::size_t rank, const std::filesystem::path& target, const Blob& blob,
                  const SaveOptions& options = {}) {
    return start(rank, target, blob, options).wait();
  }

  AsyncResponse start(std::size_t rank, const std::filesystem::path& target, const Blob& blob,
                      const SaveOptions& options = {}) {
    const Part part(fmt::format("{};", rank));
    return core::start_save(target, {{"part", part}, {"blob", blob}}, registry_, options, context(rank));
  }

  std::vector<RankEnd> save_all(const std::filesystem::path& target, const Blob& blob,
                                const SaveOptions& options = {}) {
    return on_all([&](std::size_t rank) { return save(rank, target, blob, options); });
  }

 private:
  const std::chrono::milliseconds heartbeat_;
  SteppedTime time_;
  LocalRanks network_;
  RegistrySnapshot registry_;
  std::vector<std::shared_ptr<RankSyscalls>> syscalls_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::jthread passing_;  // Ends first.
};

/// Loads in a process that knows nothing of ranks.
inline Loaded load_alone(const std::filesystem::path& target, const RegistrySnapshot& registry) {
  const Context alone;
  return core::start_load(target, {}, registry, LoadOptions(), alone).wait();
}

inline SaveOptions overwriting_save() {
  SaveOptions options;
  options.overwrite = true;
  return options;
}

}  // namespace cairn::testing
