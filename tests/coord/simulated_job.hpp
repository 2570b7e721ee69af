// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"

#include "coord/simulated_network.hpp"

namespace cairn::testing {

using Shared = std::shared_ptr<coord::Session>;
/// A rank does this in a session; returns what it has to show.
using Program = Awaitable<std::string> (*)(Shared session, std::size_t rank);

/// How it ended for one rank: with a text, or with a failure.
struct End {
  std::string text;
  std::exception_ptr failure;
  std::chrono::nanoseconds time{0};
  bool is_reached = false;

  void rethrow() const {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
};

/// Of each rank; filled in while the network runs.
using Ends = std::shared_ptr<std::vector<End>>;

/// The ranks of a simulated job.
class Job {
 public:
  explicit Job(std::size_t ranks, std::size_t fan_out = 2) : Job(ranks, options_of(fan_out), {}) {}
  Job(std::size_t ranks, const coord::CoordinatorOptions& options, const SimulatedOptions& simulated)
      : network_(ranks, simulated) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      coordinators_.push_back(std::make_unique<coord::Coordinator>(network_.transport(rank), options));
    }
  }

  [[nodiscard]] std::size_t size() const { return coordinators_.size(); }
  SimulatedNetwork& network() { return network_; }
  /// As a rank does that ends.
  void close(std::size_t rank) { coordinators_[rank].reset(); }
  coord::Coordinator& coordinator(std::size_t rank) { return *coordinators_[rank]; }

  /// Starts a session of all ranks.
  Ends start(Program program) { return start_without(size(), program); }
  /// Of all but one.
  Ends start_without(std::size_t missing, Program program) {
    auto ends = std::make_shared<std::vector<End>>(size());
    for (std::size_t rank = 0; rank < size(); ++rank) {
      if (rank != missing) {
        start(rank, std::chrono::nanoseconds(0), program, ends);
      }
    }
    return ends;
  }
  void start(std::size_t rank, std::chrono::nanoseconds delay, Program program, const Ends& ends) {
    network_.spawn(rank, delay, play(&network_, coordinators_[rank].get(), program, ends));
  }

  std::vector<End> run(Program program) {
    const auto ends = start(program);
    network_.run();
    return *ends;
  }

  static std::vector<std::string> texts(const std::vector<End>& ends) {
    std::vector<std::string> texts;
    for (const End& end : ends) {
      texts.push_back(end.failure ? describe(end.failure) : end.text);
    }
    return texts;
  }

 private:
  // outlives: the test keeps network and coordinators until all has happened.
  static Awaitable<> play(SimulatedNetwork* network, coord::Coordinator* coordinator, Program program,
                          Ends ends) {
    const auto session = std::make_shared<coord::Session>(coordinator->join());
    End& end = (*ends)[coordinator->rank()];
    try {
      end.text = co_await program(session, coordinator->rank());
    } catch (...) {
      end.failure = std::current_exception();
    }
    end.time = network->now();
    end.is_reached = true;
    session->leave();
  }

  static coord::CoordinatorOptions options_of(std::size_t fan_out) {
    coord::CoordinatorOptions options;
    options.fan_out = fan_out;
    return options;
  }

  SimulatedNetwork network_;
  std::vector<std::unique_ptr<coord::Coordinator>> coordinators_;
};

}  // namespace cairn::testing
