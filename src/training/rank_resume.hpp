// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "cairn/coord/coordinator.hpp"
#include "cairn/training/step_options.hpp"

#include "training/call_time.hpp"

namespace cairn::training {

/// How one rank goes on from a step.
struct RankResume {
  std::string root;                ///< For words.
  const CallTime* time = nullptr;  ///< The caller's, which outlives the call.
  /// All load together the step that rank 0 finds. Otherwise rank 0 loads it, and the others after it.
  bool loads_together = false;
  /// Rank 0: loads the newest step but for those; nothing when there is none. Lists what it has passed over.
  std::function<std::optional<Resumed>(const std::set<std::uint64_t>& without)> load_newest;
  /// Rank 0: the newest step but for those, sound or not, which all then load together.
  std::function<std::optional<std::uint64_t>(const std::set<std::uint64_t>& without)> find_newest;
  /// Loads the step that rank 0 has named.
  std::function<Loaded(std::uint64_t step)> load;
  /// Why this rank does not take what was loaded; empty where it does.
  std::function<std::string(Resumed& resumed)> refusal;
  /// Says whether a failure of `load` is one of the step itself, for which another is tried.
  std::function<bool(std::uint64_t step, const std::exception_ptr& failure)> may_fall_back;
  /// Where a step lies.
  std::function<std::filesystem::path(std::uint64_t step)> path;
};

/// Has all ranks go on from one step: that of rank 0, or an older one that all of them can load. Called by all of them.
///
/// Errors: those of a rank's functions; Errc::timed_out; Errc::peer_failed on the others.
[[nodiscard]] std::optional<Resumed> resume_together(coord::Coordinator& coordinator, const RankResume& rank);

/// What one rank does when all go back.
struct RankRewind {
  std::function<void()> prepare;  ///< First; waits for saves of this rank, perhaps.
  /// What is to keep all from going back; empty: nothing.
  std::function<std::string()> find_objection;
  std::function<void()> work;  ///< Of rank 0, while the others wait for its end.
};

/// Has all ranks go back to a step. Called by all of them.
///
/// Errors: Errc::invalid_argument: another step on another rank; an objection. What the functions throw.
///         Errc::timed_out. Errc::peer_failed on the others.
void rewind_together(coord::Coordinator& coordinator, std::uint64_t step, const RankRewind& rank,
                     const CallTime& time);

}  // namespace cairn::training
