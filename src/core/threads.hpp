// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cairn/core/context.hpp"

#include "async/internal/thread_pool.hpp"
#include "async/internal/timers.hpp"
#include "base/internal/clock.hpp"

namespace cairn::core {

/// The threads of a context. Pools that grow do so while all of their threads are blocked, so that no operation waits
/// for another one's disk or handler.
struct Threads {
  /// `clock` outlives them; `ranks` processes share the machine's cores.
  ///
  /// Errors: Errc::invalid_argument for a niceness that is not between 0 and 19.
  Threads(const ContextOptions& options, const Clock& clock, std::size_t ranks = 1);

  /// Returns whether the calling thread is one of them.
  [[nodiscard]] bool runs_this_thread() const noexcept;

  /// Copy, and hash for loads and for saves until `staged`; read what seems to be in the page cache. Grows: an
  /// operation has as many as there are at first, and a disk or a handler's source that blocks them keeps no other.
  async::ThreadPool workers;
  /// System calls that block, and code of handlers. Grows.
  async::ThreadPool calls;
  /// Hash, and run code of handlers, once the caller has gone on: with a lower priority (niceness). Grows.
  async::ThreadPool background;
  /// Where operations run, each on a strand. Grows.
  async::ThreadPool coroutines;
  /// Deadlines. First to stop: it is last here.
  async::Timers timers;
};

}  // namespace cairn::core
