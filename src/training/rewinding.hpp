// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cairn/core/context.hpp"
#include "cairn/training/step_directory.hpp"

#include "io/internal/file.hpp"
#include "store/internal/checkpoint_lock.hpp"
#include "training/step_uses.hpp"

namespace cairn::training {

/// Sets all steps of a root aside that are above one: the line that led to them is given up.
///
/// 1. All entries of these steps are found: other generations, too, what overwrites have left, and steps that have lost
///    their COMMIT. A recovery, or a resume that meets them, would bring the line back.
/// 2. Where a step is pinned or in use, all such are named, and nothing is moved.
/// 3. A directory is made for the line, and is durable.
/// 4. What readers do not find goes first, to a line of its own. So each step is one entry.
/// 5. The steps go, the highest first, each with one rename and the syncs of both directories. So a crash leaves a
///    shorter line, and never a gap in it.
class Rewinding {
 public:
  /// Steps 1 and 2. `directory` and `uses` must outlive it; until it ends this process uses none of the steps, and
  /// nobody removes the one that stays.
  ///
  /// Errors: Errc::invalid_argument; OS errors.
  Rewinding(std::uint64_t step, StepDirectory& directory, StepUses& uses);

  /// Returns whether there is nothing above the step.
  [[nodiscard]] bool is_over() const noexcept { return above_.empty(); }

  /// Steps 3 to 5. What was moved is known not to be there when it throws.
  ///
  /// Errors: Errc::invalid_argument: a step was pinned meanwhile, or somebody is about to pin, replace or remove it; OS
  ///         errors.
  void run(const Context& context);

 private:
  struct Above {
    std::vector<std::string> entries;  ///< What readers find last.
    std::string objection;             ///< Why it must not be moved; empty where it may.
  };

  void find(std::uint64_t step, const StepUses& uses);
  void move_leftovers(const Context& context);
  void move_step(std::uint64_t step, const std::string& entry, const io::Directory& line) const;
  void move(const std::string& entry, const io::Directory& line) const;

  StepDirectory& directory_;
  const std::optional<io::Directory> root_;  // Nothing where it is yet to be made.
  std::map<std::uint64_t, Above> above_;
  std::deque<StepRemoval> removals_;
  std::optional<store::CheckpointLock> stays_;  // The step to go back to: who removes steps leaves it alone.
};

}  // namespace cairn::training
