// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cairn/core/response.hpp"

namespace cairn::core {

/// Blocks until an operation is answered, and rethrows what went wrong, which then counts as heard. What its result
/// says nobody has heard yet: that is for whom asks the response for it.
///
/// Errors: Errc::invalid_argument on one of the context's own threads, which would wait for itself.
void settle(const Response& response);

}  // namespace cairn::core
