// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "io/faulty_syscalls.hpp"
#include "support/held_syscalls.hpp"
#include "support/unsynced_syscalls.hpp"
#include "training/fixture.hpp"

namespace cairn::testing {

/// Of a policy whose answer comes right before removals begin: what it does happens to them.
inline KeepPolicy latest_after(std::function<void()> act) {
  return {"latest", false, [act = std::move(act)](std::span<const StepInfo> steps, CommitTime now) {
            act();
            return keep::latest(1)(steps, now);
          }};
}

/// With a file system whose answers tests decide.
class HeldCheckpointers : public Checkpointers {
 protected:
  static ContextOptions held(std::shared_ptr<HeldSyscalls> disk) {
    ContextOptions options = small();
    options.syscalls = std::move(disk);
    return options;
  }

  HeldCheckpointers() : HeldCheckpointers(std::make_shared<HeldSyscalls>()) {}
  explicit HeldCheckpointers(std::shared_ptr<HeldSyscalls> disk)
      : Checkpointers(held(disk)), disk_(std::move(disk)) {}
  ~HeldCheckpointers() override { disk_->let_go(); }

  std::shared_ptr<HeldSyscalls> disk_;
};

/// With a file system that fails as tests say, and syncs nothing: tests try each of its calls.
class FaultyCheckpointers : public Checkpointers {
 protected:
  static ContextOptions faulty(std::shared_ptr<io::FaultySyscalls> disk) {
    ContextOptions options = small();
    options.syscalls = std::move(disk);
    return options;
  }

  FaultyCheckpointers() : FaultyCheckpointers(std::make_shared<io::FaultySyscalls>(unsynced_syscalls())) {}
  explicit FaultyCheckpointers(std::shared_ptr<io::FaultySyscalls> disk)
      : Checkpointers(faulty(disk)), disk_(std::move(disk)) {}

  std::shared_ptr<io::FaultySyscalls> disk_;
};

}  // namespace cairn::testing
