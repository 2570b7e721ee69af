// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "cairn/async/awaitable.hpp"

#include "async/internal/event.hpp"
#include "core/operation.hpp"

namespace cairn::core {

/// What the responses of saves and loads have in common: waiting for an operation, and letting go of one.

/// Errors: Errc::invalid_argument when the calling thread must not wait for the operation, unless there is nothing to wait
///         for.
void require_may_wait(const Operation& operation);

/// Blocks until the operation is answered, for `timeout` at most.
///
/// Errors: Errc::still_running; as require_may_wait.
void wait_for_answer(const Operation& operation, std::chrono::nanoseconds timeout);

/// Waits for an event of the operation; rethrows its failure.
///
/// Cancel: while the operation has not released the caller's memory, stops it and ends when that is released, in one
///         suspension: the cancellation state of the caller's coroutine stays as it was. Else it only stops waiting.
// outlives: who awaits keeps the operation.
Awaitable<> wait_or_stop(Operation& operation, async::Event event);

/// Stops an operation that has not released the caller's memory, and blocks until it has.
void take_memory_back(Operation& operation) noexcept;

}  // namespace cairn::core
