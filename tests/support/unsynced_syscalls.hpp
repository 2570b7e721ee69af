// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/forwarding_syscalls.hpp"

namespace cairn::testing {

/// Answers at once that something is synced: for tests of hundreds of files that do not ask what is durable. With a disk that takes
/// milliseconds for a sync they would do little else than wait.
class UnsyncedSyscalls : public ForwardingSyscalls {
 public:
  int sync_data(int /*fd*/) noexcept override { return 0; }
  int sync(int /*fd*/) noexcept override { return 0; }
};

}  // namespace cairn::testing
