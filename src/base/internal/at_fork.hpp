// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "base/internal/mutex.hpp"

namespace cairn {

/// Holds what is done around each `fork()` of this process, with the mutex locked.
struct ForkHooks {
  std::function<void()> before;
  std::function<void()> in_child;
};

/// Locks `mutex` around each `fork()`: so the child finds what it guards whole, and the mutex free. In a child other
/// threads do not run, and a lock that one of them held would stay held for ever.
///
/// The mutex must live as long as the process, and be held for a moment only, by threads that hold no other such mutex.
void keep_whole_in_forks(Mutex& mutex, ForkHooks hooks = {});

}  // namespace cairn
