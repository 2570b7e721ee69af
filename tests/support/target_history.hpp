// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace cairn::testing {

/// What a call that changes a target is known to have come to.
enum class Answer : std::uint8_t {
  none,     ///< Nobody has been told, or can be any more: it has had its effect, or has not, or will have.
  done,     ///< It has had its effect.
  failed,   ///< It has none, and never will.
  unknown,  ///< `commit_unknown`: as `none`, though it was told.
};

/// The answer that a save was given: nothing thrown is `done`, Errc::commit_unknown is `unknown`, all else `failed`.
[[nodiscard]] Answer answer_of_save(const std::exception_ptr& failure);
/// The same of a removal: what fails is unknown, unless nothing was there, or it had not begun.
[[nodiscard]] Answer answer_of_removal(const std::exception_ptr& failure);

/// A promise that was not kept.
struct Lie {
  std::string kind;  ///< "zombie", "lost", "order", "damage", "verdict": a word to count by.
  std::string what;
};

/// The calls that change one target, and what the target may therefore hold.
///
/// Each save saves its own number, so that whoever finds a checkpoint knows whose it is. A call *takes effect* at one
/// moment between its beginning and its end; it is *known* to have done so when it was told to be done, or when its
/// checkpoint was seen. One call of a process is *before* another when its place in the order was certain when the
/// other began. So a target never holds a save that has failed, nor one that is before a call that is known to have
/// had its effect.
/// Threads: one at a time.
class TargetHistory {
 public:
  using Number = std::uint64_t;
  /// A moment in the history; later ones are greater.
  using Tick = std::uint64_t;

  /// Nothing is there at first.
  explicit TargetHistory(std::string name) : name_(std::move(name)) {}

  /// A call begins. `number` is that of no other call, and not 0; a later call of one thread has a greater one.
  void begin_save(Number number, bool overwrites = true) { begin(number, false, overwrites); }
  void begin_removal(Number number) { begin(number, true, true); }
  /// What begins from now on comes after that call: it has its place in the order of the target.
  void place(Number number);
  /// Every call has ended, also those that nobody was told of: what begins from now on comes after all of them.
  void settle();
  /// Nothing runs, and `holder` was found: that is what is there from now on, and nothing else that was called until
  /// now.
  void restart(std::optional<Number> holder);
  /// What a call was told, which implies `place`. Returns the lie, if it is one.
  std::optional<Lie> answer(Number number, Answer answer);

  /// The moment at which a look at the target begins.
  [[nodiscard]] Tick now() { return ++tick_; }
  /// Enters what a look that began at `since` has found: the number of a save, or no checkpoint. Returns the lie, if
  /// there is one.
  std::optional<Lie> see(std::optional<Number> holder, Tick since);
  std::optional<Lie> see(std::optional<Number> holder) { return see(holder, now()); }

  /// Returns whether there may have been nothing at some moment since `since`.
  [[nodiscard]] bool may_be_absent(Tick since) const;
  /// Returns whether there may have been something, of another call, at some moment since that call began.
  [[nodiscard]] bool may_have_existed_for(Number number) const;
  /// Returns whether nothing may have been there at some moment since that call began.
  [[nodiscard]] bool may_have_been_absent_for(Number number) const;
  /// Returns whether a call has had no answer, and may yet take effect.
  [[nodiscard]] bool is_busy() const;
  [[nodiscard]] bool was_seen(Number number) const { return calls_.at(number).was_seen; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  struct Call {
    bool is_removal = false;
    bool overwrites = true;
    bool was_seen = false;
    Answer answer = Answer::none;
    Tick begun = 0;
    std::optional<Tick> placed;
    std::optional<Tick> known;  ///< To have had its effect.
  };

  void begin(Number number, bool is_removal, bool overwrites);
  /// A call that is after that one and was known at `since` to have had its effect, or 0.
  [[nodiscard]] Number successor(const Call& call, Tick since) const;
  [[nodiscard]] std::string title(Number number) const;

  std::string name_;
  Tick tick_ = 0;
  std::map<Number, Call> calls_;
};

}  // namespace cairn::testing
