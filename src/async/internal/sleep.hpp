// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "cairn/async/awaitable.hpp"

namespace cairn::async {

/// Waits `duration`.
///
/// Cancel: stops waiting at once.
Awaitable<> sleep_for(std::chrono::nanoseconds duration);

}  // namespace cairn::async
