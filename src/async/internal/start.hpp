// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cairn/async/awaitable.hpp"

#include "async/internal/event.hpp"

namespace cairn::async {

/// Starts `task` on `executor`; the event happens when it ends, with its failure.
///
/// Ownership: the caller that waits for the event owns the task; until then it must be able to run.
/// Errors:    the event fails with Errc::closed when the executor's context is destroyed before the end.
[[nodiscard]] Event start(const Executor& executor, Awaitable<> task);

}  // namespace cairn::async
