// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cairn/contract/checkpointable.hpp"

namespace cairn {

/// Refuses checkpointables that would be loaded over each other; each one's own leaves are compared when it is planned.
///
/// Errors: Errc::invalid_argument.
void check_destinations(const Requests& requests);

}  // namespace cairn
