// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <functional>
#include <utility>

#include "support/forwarding_syscalls.hpp"

namespace cairn::io {

/// The operating system with somebody who does something between two calls: from number `first` on, before
/// each call that looks up a name, until it has worked. (To any other call it makes no difference.)
class AttackedSyscalls final : public testing::ForwardingSyscalls {
 public:
  using ForwardingSyscalls::ForwardingSyscalls;

  /// Returns whether it has worked.
  using Attack = std::function<bool()>;

  void plan(int first, Attack attack) {
    first_ = first;
    attack_ = std::move(attack);
    seen_ = 0;
    is_reached_ = false;
  }
  /// Returns whether there were as many calls as the attacker waits for.
  [[nodiscard]] bool is_reached() const { return is_reached_; }

  bool lacks_rename_modes = false;

  int sync_data(int) noexcept override { return 0; }  // The power stays on; this is half of the time.
  int sync(int) noexcept override { return 0; }
  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                RenameMode mode) noexcept override {
    if (mode != RenameMode::replace && lacks_rename_modes) {
      return -EINVAL;  // As NFS answers.
    }
    return ForwardingSyscalls::rename_at(old_directory, old_name, new_directory, new_name, mode);
  }

 private:
  /// Lists look up a name, too: "."
  static bool looks_up(const testing::PassingCall& call) {
    return call.name != nullptr || call.kind == testing::CallKind::list;
  }

  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    if (attack_ && looks_up(call) && ++seen_ >= first_) {
      is_reached_ = true;
      if (attack_()) {
        attack_ = nullptr;
      }
    }
    return call.make();
  }

  Attack attack_;
  int first_ = 1;
  int seen_ = 0;
  bool is_reached_ = false;
};

}  // namespace cairn::io
