// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>

#include "base/internal/mutex.hpp"

namespace cairn::io {
class Syscalls;
}

namespace cairn::training {

/// Which steps of a root this process saves or loads, and which it removes: never the same.
///
/// Threads: every method may be called from any thread.
class StepUses {
 public:
  /// Returns the uses of the directory at `root`, shared by all Checkpointers of the process that see the
  /// same file system: the operating system's, or the one that a context brings along.
  static std::shared_ptr<StepUses> of(const std::filesystem::path& root, const io::Syscalls* syscalls);

  [[nodiscard]] std::set<std::uint64_t> in_use() const;
  [[nodiscard]] bool is_being_removed(std::uint64_t step) const;

  /// False when somebody uses it, or removes it already.
  [[nodiscard]] bool begin_removal(std::uint64_t step);
  void end_removal(std::uint64_t step) noexcept;

 private:
  friend class StepUser;

  mutable Mutex mutex_;
  std::multiset<std::uint64_t> users_ CAIRN_GUARDED_BY(mutex_);
  std::set<std::uint64_t> removals_ CAIRN_GUARDED_BY(mutex_);
};

/// Uses a step: it is not removed by this process meanwhile.
class StepUser {
 public:
  /// Errors: Errc::not_found: it is being removed.
  StepUser(std::shared_ptr<StepUses> uses, std::uint64_t step);
  ~StepUser();
  StepUser(const StepUser&) = delete;
  StepUser& operator=(const StepUser&) = delete;

 private:
  const std::shared_ptr<StepUses> uses_;
  const std::uint64_t step_;
  const pid_t process_;
};

/// Removes a step, or moves it away: nobody of this process uses it meanwhile.
class StepRemoval {
 public:
  /// `uses` must outlive it.
  StepRemoval(StepUses& uses, std::uint64_t step)
      : uses_(uses), step_(step), has_begun_(uses.begin_removal(step)) {}
  /// Ends it, however it ends.
  ~StepRemoval();
  StepRemoval(const StepRemoval&) = delete;
  StepRemoval& operator=(const StepRemoval&) = delete;

  /// False when somebody uses it, or removes it already.
  [[nodiscard]] bool has_begun() const noexcept { return has_begun_; }

 private:
  StepUses& uses_;
  const std::uint64_t step_;
  const bool has_begun_;
};

}  // namespace cairn::training
