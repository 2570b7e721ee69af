// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "io/internal/engine.hpp"
#include "support/forwarding_syscalls.hpp"

namespace cairn::testing {

/// Answers at once that something is synced: for tests of hundreds of files that do not ask what is durable. With a
/// disk that takes milliseconds for a sync they would do little else than wait.
class UnsyncedSyscalls : public ForwardingSyscalls {
 public:
  int sync_data(int /*fd*/) noexcept override { return 0; }
  int sync(int /*fd*/) noexcept override { return 0; }
};

inline UnsyncedSyscalls& unsynced_syscalls() {
  static UnsyncedSyscalls calls;
  return calls;
}

inline std::unique_ptr<io::Engine> unsynced_engine() {
  io::EngineOptions options;
  options.syscalls = &unsynced_syscalls();
  return io::make_engine(io::EngineKind::threads, options).engine;
}

}  // namespace cairn::testing
