// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "async/internal/thread_pool.hpp"
#include "io/internal/engine.hpp"
#include "observe/internal/meter.hpp"
#include "staging/internal/data_plane.hpp"

namespace cairn::staging {

/// A data plane of its own, for who reads files without a context. An engine is made when one is needed: small files,
/// and those in the page cache, need none.
///
/// A data plane of its own. All that runs on its strand has ended before it goes.
class OwnPlane {
 public:
  /// As many threads as are busy, up to `threads`; at most four transfers for each are in flight.
  ///
  /// Errors: EAGAIN when not even one thread can be started.
  OwnPlane(io::Syscalls& syscalls, std::size_t threads);

  [[nodiscard]] DataPlane& plane() noexcept { return plane_; }
  [[nodiscard]] const Executor& strand() const noexcept { return strand_; }

 private:
  const std::unique_ptr<io::Engine> engine_;
  observe::Meter meter_;
  async::ThreadPool pool_;
  Executor strand_;
  DataPlane plane_;
};

}  // namespace cairn::staging
