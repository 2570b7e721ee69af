// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "cairn/async/awaitable.hpp"

#include "coord/simulated_job.hpp"

namespace cairn::joint {

/// What one rank does in its part of a save or a load of all ranks; returns what it has to show.
template <class Joint>
using Part = Awaitable<std::string> (*)(std::shared_ptr<Joint> joint, std::size_t rank);

// outlives: the test keeps the coordinator until all has happened.
template <class Joint>
Awaitable<> play(coord::Coordinator* coordinator, Part<Joint> part, testing::Ends ends) {
  testing::End& end = (*ends)[coordinator->rank()];
  try {
    const std::shared_ptr<Joint> joint = Joint::join(*coordinator);
    end.text = co_await part(joint, coordinator->rank());
  } catch (...) {
    end.failure = std::current_exception();
  }
  end.is_reached = true;
}

/// Has all ranks of a job do a part each, the same or their own; one comes after the other, so that much is said
/// before the last is there. Returns how that has ended for each of them.
template <class Joint>
std::vector<testing::End> play(testing::Job& job, const std::vector<Part<Joint>>& parts) {
  const auto ends = std::make_shared<std::vector<testing::End>>(job.size());
  for (std::size_t rank = 0; rank < job.size(); ++rank) {
    job.network().spawn(rank, std::chrono::milliseconds(10 * rank),
                        play(&job.coordinator(rank), parts[rank < parts.size() ? rank : 0], ends));
  }
  job.network().run();
  return *ends;
}

}  // namespace cairn::joint
