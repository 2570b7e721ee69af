// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cairn/coord/coordinator.hpp"

namespace cairn::testing {

// Scenes of ranks that load files together.
// Errors: std::runtime_error when what a scene claims does not hold on this rank.

/// Each rank loads all bytes of all files, and then its columns of them: through memory that ranks of one machine
/// share, and in packets where each is apart.
void load_shared(const std::shared_ptr<coord::Coordinator>& coordinator);

/// The last rank dies while it reads for the others.
void load_shared_killed(const std::shared_ptr<coord::Coordinator>& coordinator);

}  // namespace cairn::testing
