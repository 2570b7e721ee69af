// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "support/dice.hpp"
#include "support/target_history.hpp"
#include "verdicts/journal.hpp"
#include "verdicts/observer.hpp"
#include "verdicts/program.hpp"
#include "verdicts/slow_calls.hpp"

namespace cairn::verdicts {

/// What a program asks of one operation; what may be said of it follows.
struct Asked {
  Asked() = default;

  std::size_t target = 0;
  bool overwrite = false;
  bool coalesce = false;
  Duration deadline{0};          ///< Zero: none.
  bool uses_memory = false;      ///< The answer may wait for the last access to the caller's memory.
  bool fails_by_itself = false;  ///< Its handler throws.
  bool must_be_refused = false;  ///< Its context is closed.
  bool is_alone = true;          ///< No other thread calls meanwhile: what is called later has a later place.
};

/// Knows what each target may hold, from what was asked and from what was answered, and says when that is not so.
///
/// A target may hold what its `TargetHistory` allows: the calls of one target have the order in which they
/// were made.
/// Threads: every method may be called from any thread; a call is placed when it is known to have its turn.
class Oracle {
 public:
  Oracle(Journal& journal, const HarnessClock& clock, const SlowCalls& calls, Observer& observer,
         const std::vector<std::filesystem::path>& targets, const Program& program);

  /// Enters a call; returns its number, which is also the value that it saves.
  std::uint64_t begin_save(const Asked& asked);
  std::uint64_t begin_load(const Asked& asked);
  std::uint64_t begin_removal(const Asked& asked);
  /// The call has its place: what begins from now on comes after it.
  void place(std::uint64_t number);

  /// The program has asked for its end: it may be cancelled from now on, and must be in time.
  void ask_stop(std::uint64_t number);
  /// When a call that somebody waits for from now on must have answered; Moment::max(): at any time.
  [[nodiscard]] Moment latest_answer(std::uint64_t number) const;
  /// A recovery has begun, and may remove what others have left.
  void begin_recovery() { has_recovered_ = true; }
  /// It may have been stopped, or not.
  void allow_stop(std::uint64_t number);
  /// The context of all open operations is closed; they have until then.
  void ask_close(Moment limit);

  /// Returns whether a save of that target is unknown, and was seen where another one had been: that one must
  /// still be there.
  [[nodiscard]] bool must_have_left_old(const std::string& target) const;
  /// The result of a save names problems.
  void tell_problems(std::uint64_t number);
  /// What a save was told: nothing when it is committed. `waited_since` is when its caller began to wait.
  void end_save(std::uint64_t number, const std::exception_ptr& failure, Moment waited_since);
  void end_removal(std::uint64_t number, const std::exception_ptr& failure, Moment waited_since);
  /// What a load was told; `value` is the number of the save that it gave.
  void end_load(std::uint64_t number, std::optional<std::uint64_t> value, const std::exception_ptr& failure,
                Moment waited_since);

  /// Compares what the target holds with what it may hold; `thoroughly`: with every byte.
  void look_at(std::size_t target, bool thoroughly);
  /// Nothing runs any more: compares all targets, and what lies beside them.
  void look_at_all();

  /// Returns whether a save of the target has not been answered.
  [[nodiscard]] bool is_busy(std::size_t target) const;
  [[nodiscard]] const std::filesystem::path& path(std::size_t target) const { return targets_[target].path; }
  /// Returns whether what a save of that target has replaced, or a removal has taken, may still lie there:
  /// because nobody was told, or can know, how it has ended, or because its result said so.
  [[nodiscard]] bool may_have_left_old(const std::string& target) const;
  [[nodiscard]] std::size_t target_count() const { return targets_.size(); }

 private:
  struct Call {
    Asked asked;
    bool is_removal = false;
    bool is_load = false;
    testing::Answer answer = testing::Answer::none;
    bool may_stop = false;
    bool has_problems = false;
    std::optional<Moment> stop_limit;   ///< When a stop must have had its effect.
    std::optional<Moment> close_limit;  ///< The same for a close.
    Moment called;
    testing::TargetHistory::Tick since = 0;  ///< In the history of its target.
    std::uint64_t failures = 0;
  };

  struct Target {
    std::filesystem::path path;
    std::size_t element_count = 0;
    testing::TargetHistory history;  ///< Of saves and removals.
  };

  std::uint64_t begin(const Asked& asked, bool is_removal, bool is_load);
  [[nodiscard]] std::string title(std::uint64_t number) const;
  /// Why that failure may not be; empty when it may.
  [[nodiscard]] std::string objection(std::uint64_t number, const std::exception_ptr& failure) const;
  [[nodiscard]] bool has_later_in_series(const Call& call, std::uint64_t number) const;
  [[nodiscard]] Moment limit_of(std::uint64_t number, Moment waited_since) const;
  void check_time(std::uint64_t number, Moment waited_since);
  void check(const std::optional<testing::Lie>& lie);

  Journal& journal_;
  const HarnessClock& clock_;
  const SlowCalls& system_;
  Observer& observer_;
  const Duration grace_;
  mutable std::recursive_mutex mutex_;  // Protects all below.
  std::vector<Target> targets_;
  std::map<std::uint64_t, Call> calls_;
  std::uint64_t last_ = 0;
  std::atomic<bool> has_recovered_{false};
};

}  // namespace cairn::verdicts
