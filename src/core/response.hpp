// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cairn/async/awaitable.hpp"
#include "cairn/core/response.hpp"

#include "async/internal/event.hpp"
#include "core/operation.hpp"

namespace cairn::core {

/// Waits for an event of the operation; rethrows its failure. A coroutine that waits keeps the operation, not the
/// response.
///
/// Cancel: while the operation has not released the caller's memory, stops it and ends when that is released, in one
///         suspension: the cancellation state of the caller's coroutine stays as it was. Else it only stops waiting.
Awaitable<> wait_or_stop(std::shared_ptr<Operation> operation, async::Event event);

/// Ends at once: an empty response gives it to await.
Awaitable<> nothing();

}  // namespace cairn::core
