// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace cairn {
class Context;
}

namespace cairn::core {

/// Runs `work`, which blocks, and returns when it has ended; rethrows what it throws. `what` is what it does, for messages.
///
/// With a deadline (zero: none) it runs on a thread of the context's, and may go on after the call has come back: it owns all
/// that it uses.
/// Errors: Errc::timed_out; Errc::closed in a process that was forked from the context's.
void run_within(const Context& context, const std::string& what, std::chrono::nanoseconds deadline,
                std::function<void()> work);

}  // namespace cairn::core
