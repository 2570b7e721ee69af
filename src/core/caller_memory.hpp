// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "async/internal/event.hpp"
#include "async/internal/gate.hpp"

namespace cairn::core {

/// How long an operation touches memory that is the caller's.
enum class CallerMemoryUse : std::uint8_t {
  unused,        ///< All that it needs was moved into it, or is shared.
  until_staged,  ///< The blocking phase reads it.
  until_done,    ///< Nothing is copied: it is read, or written, to the end.
};

/// The caller's memory while an operation has it: a gate around each phase that may touch it, and an event for when
/// it is the caller's again.
///
/// Code that touches such memory visits the gate of its phase meanwhile. Handlers run inside these gates, too, so
/// that what they have left to do can be given up together.
/// Threads: every method may be called from any thread.
class CallerMemory {
 public:
  explicit CallerMemory(CallerMemoryUse kind)
      : kind_(kind), background_(kind == CallerMemoryUse::until_done ? blocking_ : async::Gate()) {}

  [[nodiscard]] const async::Gate& blocking_gate() const noexcept { return blocking_; }
  /// The same gate where the memory is used to the end.
  [[nodiscard]] const async::Gate& background_gate() const noexcept { return background_; }

  /// Returns whether the operation uses the memory without a copy.
  [[nodiscard]] bool is_to_the_end() const noexcept { return kind_ == CallerMemoryUse::until_done; }

  /// The blocking phase is over.
  void end_blocking_phase() const {
    if (kind_ == CallerMemoryUse::until_staged) {
      blocking_.close();
    }
  }

  /// Nothing begins to touch it any more: `released` happens as soon as those inside have left.
  void give_back() const noexcept {
    blocking_.close();
    background_.close();
  }

  [[nodiscard]] const async::Event& released() const noexcept {
    return kind_ == CallerMemoryUse::unused ? nothing_used_ : blocking_.left();
  }

 private:
  const CallerMemoryUse kind_;
  const async::Event nothing_used_ = async::Event::happened();
  const async::Gate blocking_;
  const async::Gate background_;
};

}  // namespace cairn::core
