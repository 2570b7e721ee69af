// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "io/internal/request_queue.hpp"

namespace cairn::io {

/// The share of one operation in an engine: so many of its requests are at work at once, and the others wait
/// here. A disk that does not answer keeps no more than that, and no request of another operation waits
/// behind these.
///
/// Ownership: lives until all requests that name it are done.
/// Threads:   the engine's to use; nothing of it is anybody else's.
struct EngineShare {
  EngineShare() = default;
  EngineShare(const EngineShare&) = delete;
  EngineShare& operator=(const EngineShare&) = delete;

  struct Part {
    std::size_t at_work = 0;
    RequestQueue waiting;
  };

  Part transfers;  ///< On threads.
  Part syncs;      ///< On threads.
  Part ring;
};

}  // namespace cairn::io
