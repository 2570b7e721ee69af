// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cairn/coord/coordinator.hpp"

namespace cairn::joint {

/// Joins the two conversations of a save or a load: what all do, and the last word of rank 0. Both kinds join as many, so that
/// a load that meets a save is told so, and the next calls of all ranks meet again.
[[nodiscard]] inline std::vector<Conversation> join_next(Coordinator& coordinator) {
  return coordinator.join({Bond::all, Bond::above});
}

}  // namespace cairn::joint
