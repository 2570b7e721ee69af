// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ranks/story.hpp"
#include "support/target_history.hpp"

namespace cairn::ranks {

/// What the ranks of a job were told, and what was seen: an oracle of their verdicts.
///
/// All ranks make the same saves in the same order, which is that of the numbers: each save has its place as soon as one rank has called
/// it. What one rank was told holds for all.
/// Threads: every method may be called from any thread.
class JobHistory {
 public:
  using Number = testing::TargetHistory::Number;
  using Tick = testing::TargetHistory::Tick;

  /// `is_told`: what happens is printed at once.
  JobHistory(const Story& story, bool is_told);

  void begin(std::size_t rank, Number number);
  /// What a rank was told: a failure, or null.
  void answer(std::size_t rank, Number number, const std::exception_ptr& failure);
  /// A rank has no answer, and will have none.
  void forget(std::size_t rank, Number number);
  /// No rank runs any more.
  void settle();

  [[nodiscard]] Tick now(std::size_t target);
  void see(std::size_t target, std::optional<Number> holder, Tick since);
  void lie(const std::string& kind, const std::string& what);

  /// Empty when there was none.
  [[nodiscard]] std::string lies() const;
  /// How often saves ended with each error, or were committed; of every rank that was told.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& ends() const { return ends_; }
  /// A line for each thing that happened.
  [[nodiscard]] std::string text() const;

 private:
  struct Save {
    testing::Answer definite =
        testing::Answer::none;  ///< What the first rank was told that was told how it ended.
    bool may_be_done = false;   ///< Some rank was told `commit_unknown`.
  };

  void note(const std::string& line);
  void take(std::size_t rank, Number number, testing::Answer answer);
  void tell(const std::optional<testing::Lie>& lie);
  testing::TargetHistory& target_of(Number number) { return targets_[story_.steps[number - 1].target]; }

  mutable std::mutex mutex_;  // Protects what follows.
  const Story& story_;
  const bool is_told_;
  std::vector<testing::TargetHistory> targets_;
  std::map<Number, Save> saves_;
  std::vector<std::string> lines_;
  std::vector<std::string> lies_;
  std::map<std::string, std::uint64_t> ends_;
};

}  // namespace cairn::ranks
