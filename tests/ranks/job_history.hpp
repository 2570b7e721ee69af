// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ranks/story.hpp"
#include "ranks/words.hpp"
#include "support/dice.hpp"
#include "support/target_history.hpp"

namespace cairn::ranks {

/// What the ranks of a job were told, and what was seen: an oracle of their verdicts.
///
/// All ranks make the same saves in the same order, which is that of the numbers: each save has its place as soon as
/// one rank has called it. What one rank was told holds for all.
/// Threads: every method may be called from any thread.
class JobHistory {
 public:
  using Number = testing::TargetHistory::Number;
  using Tick = testing::TargetHistory::Tick;

  /// `is_told`: what happens is printed at once.
  JobHistory(const Story& story, bool is_told);

  void begin(std::size_t rank, Number number);
  /// A rank was told that its save is committed, and with which problems.
  void commit(std::size_t rank, Number number, const std::vector<std::string>& problems);
  /// It was told of a failure.
  void fail(std::size_t rank, Number number, const std::exception_ptr& failure);
  /// A rank has no answer, and will have none.
  void forget(std::size_t rank, Number number);
  /// Returns when all ranks but one have an answer, or will have none.
  void await_others(std::size_t rank, Number number);
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
    std::size_t ended = 0;      ///< On so many ranks.
    std::map<std::size_t, testing::Moment> calls;  ///< By rank.
    std::string disagreement;                      ///< As the first rank was told of it.
  };

  void note(const std::string& line);
  void take(std::size_t rank, Number number, testing::Answer answer);
  void judge(const Told& told);
  /// Who had called a save so long before the deadline of a rank that this must have heard of it by then.
  [[nodiscard]] std::set<std::size_t> present_at_deadline(std::size_t rank, Number number) const;
  void tell(const std::optional<testing::Lie>& lie);
  testing::TargetHistory& target_of(Number number) { return targets_[story_.steps[number - 1].target]; }

  mutable std::mutex mutex_;  // Protects what follows.
  std::condition_variable has_ended_;
  const Story& story_;
  const bool is_told_;
  std::vector<testing::TargetHistory> targets_;
  std::map<Number, Save> saves_;
  std::vector<std::string> lines_;
  std::vector<std::string> lies_;
  std::map<std::string, std::uint64_t> ends_;
};

}  // namespace cairn::ranks
