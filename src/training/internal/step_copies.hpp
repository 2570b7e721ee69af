// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "cairn/core/context.hpp"
#include "cairn/training/checkpointer.hpp"

#include "training/internal/step_lines.hpp"

namespace cairn::training {

/// Saves of a Checkpointer that are copies of checkpoints which lie elsewhere already: with its policies, retention,
/// links and failures like those of any other save.
///
/// Ownership: the Checkpointer outlives it.
/// Threads:   `save` and `copy` by one thread at a time, as Checkpointer::save; the rest from any.
class StepCopies {
 public:
  /// Errors: Errc::closed in a forked process.
  explicit StepCopies(Checkpointer& steps);

  /// Returns whether the policy says that this step is to be saved, as Checkpointer::save asks it.
  ///
  /// Errors: those of the policy.
  [[nodiscard]] bool decide(std::uint64_t step, const StepOptions& how);
  /// Saves a step that was decided on; otherwise as Checkpointer::save.
  [[nodiscard]] StepResponse save(std::uint64_t step, const Checkpointables& items, const StepOptions& how);

  /// The newest step on disk, as far as is known, that no load has found damaged. `is_looked_at`: its manifest is read,
  /// too, and what has none is passed over.
  ///
  /// Errors: OS errors of that look.
  [[nodiscard]] std::optional<std::uint64_t> newest(bool is_looked_at = false) const;

  /// As RunHistory::set_found: of the steps that copies are made of.
  void set_found(bool has_found);
  /// Enters the program into the history of the run, if one is kept.
  void enter();
  /// A copy has ended, so long after it began; it has slowed the program down meanwhile.
  void add_cost(std::chrono::nanoseconds duration);

  /// As Checkpointer::rewind, of a step that need not be there where it `may_lie_elsewhere` alone.
  void rewind(std::uint64_t step, bool may_lie_elsewhere);

  /// As Remover::lines: whoever has gone back in this process.
  [[nodiscard]] std::optional<StepLines> lines() const;

  /// The step was decided on, and `copy` comes later. There is one plan at a time.
  void plan(std::uint64_t step);
  void drop_plan(std::uint64_t step);
  /// Copies the checkpoint at `original`, which has the annotations of its step, with the threads and memory of
  /// `context`. Returns when both places were looked at; before that it waits for the save before.
  ///
  /// Errors: as Checkpointer::save.
  [[nodiscard]] StepResponse copy(std::uint64_t step, const std::filesystem::path& original,
                                  const Context& context);

 private:
  Checkpointer::State& state_;
};

}  // namespace cairn::training
