// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cairn/coord/coordinator.hpp"

namespace cairn::joint {

/// Joins the two sessions of a save or a load: what all do, and the last word of rank 0. Both kinds join as many, so
/// that a load that meets a save is told so, and the next calls of all ranks meet again.
[[nodiscard]] inline std::vector<coord::Session> join_next(coord::Coordinator& coordinator) {
  return coordinator.join({coord::FailureScope::job, coord::FailureScope::root});
}

}  // namespace cairn::joint
