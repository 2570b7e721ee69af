// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace cairn {

/// Starts a thread that runs `body`, which must not throw. `name` is for people; its first 15 bytes count. All threads
/// of the library are started here: they have all signals blocked but those of faults, so the program's take them.
///
/// Errors: OS errors (EAGAIN: a limit on threads, or on the memory for its stack; the text names those that are set).
[[nodiscard]] std::thread start_thread(const std::string& name, std::function<void()> body);

/// Returns whether `start_thread` has started the calling thread.
[[nodiscard]] bool is_own_thread() noexcept;

/// Makes the calling thread yield to others: adds `niceness`, 0 (nothing) to 19, to its own, as nice(1) does for
/// processes. Where the system refuses, nothing changes.
void lower_priority(int niceness) noexcept;

}  // namespace cairn
