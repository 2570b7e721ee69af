// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"

#include "core/internal/start.hpp"
#include "store/internal/recovery.hpp"
#include "verdicts/journal.hpp"
#include "verdicts/loan.hpp"
#include "verdicts/oracle.hpp"
#include "verdicts/program.hpp"
#include "verdicts/sloth.hpp"
#include "verdicts/slow_calls.hpp"

namespace cairn::verdicts {

/// The first targets are busy, the others calm.
inline constexpr std::size_t kBusyTargets = 4;
inline constexpr std::size_t kCalmTargets = 2;

/// Calls of the system that an operation makes after it was stopped, before it releases the caller's memory: the
/// transfer that is under way, and the closing of its file.
inline constexpr int kCallsWithMemory = 2;

/// The streams of dice of other threads begin here.
inline constexpr std::uint64_t kActsOfOthers = 1'000'000;

/// A save that the program has not waited for yet.
struct OpenSave {
  OpenSave() = default;

  std::uint64_t number = 0;
  std::size_t target = 0;
  bool uses_memory = false;    ///< Until its end, not only until `staged`.
  bool may_end_early = false;  ///< It has a deadline, or was told to stop.
  const Context* context = nullptr;
  Sloth sloth;
  Loan loan;
  std::unique_ptr<AsyncResponse> response;  ///< Goes first, and waits until the loan is free.
};

struct OpenLoad {
  OpenLoad() = default;

  std::uint64_t number = 0;
  std::size_t target = 0;
  Loan loan;                               ///< Empty: the load makes its own memory.
  std::unique_ptr<LoadResponse> response;  ///< As that of a save.
};

/// Plays one program in a folder of its own, and tells the oracle what it was told.
///
/// Threads: `play` is called once; the rest are details of it.
class Player {
 public:
  Player(const Program& program, const std::filesystem::path& folder, Observer& observer,
         std::shared_ptr<Journal> journal, std::shared_ptr<HarnessClock> clock);
  ~Player();
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  void play();

  [[nodiscard]] std::size_t played() const noexcept { return played_ + played_beside_; }
  [[nodiscard]] std::uint64_t slow_calls() const { return system_->slow_calls(); }
  [[nodiscard]] std::uint64_t failures() const { return system_->failures(); }
  /// What the program and everybody else wait for; for a program that hangs.
  [[nodiscard]] std::string describe() const;

 private:
  void act(Act act);
  void make_context();
  void settle();
  void save_favourite();

  // Saves: save_acts.cpp.
  void save_and_wait();
  void save_to_open(Act act);
  void start_save(OpenSave open, Act act, const Asked& asked);
  void wait_save();
  void wait_save_a_while();
  void cancel_save();
  void cancel_waiting();
  void drop_save();
  void move_save();
  /// Waits for the answer, and takes the memory back.
  void finish(OpenSave open);
  void take_back();
  void hear(std::uint64_t number, const SaveResult& result);
  void wait_for_event();
  /// Perhaps lets all that is under way come as far as it can.
  void let_it_work();
  /// How long a save that was stopped may still have the memory. One that copies is given up after the grace.
  [[nodiscard]] Duration last_access(const OpenSave& open) const;
  /// Compares what goes on at once with what may.
  void check_budgets();
  [[nodiscard]] std::size_t going_on() const;
  [[nodiscard]] Asked ask(Dice& dice);
  [[nodiscard]] SaveOptions options_of(const Asked& asked, std::uint64_t number) const;
  [[nodiscard]] OpenSave take_save();
  void fill(const Loan& loan, std::uint64_t number, std::size_t target) const;
  AsyncResponse call_save(OpenSave& open, Act act, SaveOptions options);

  // Loads: load_acts.cpp.
  void load_and_wait(bool into);
  void load_to_open(bool into);
  void wait_load();
  void wait_load_a_while();
  void cancel_load();
  void drop_load();
  void describe_target();
  void finish(OpenLoad open);
  [[nodiscard]] OpenLoad begin_load(const Asked& asked, bool into);
  [[nodiscard]] Requests requests_of(OpenLoad& open) const;
  [[nodiscard]] OpenLoad take_load();
  /// What a load gave; nothing, and a lie, when it is no state.
  std::optional<std::uint64_t> value_of(Loaded loaded, const OpenLoad& open);

  // Several threads: together_acts.cpp. Those do what needs no other act: nothing of it is left when they end.
  void act_together();
  void act_beside(Dice& dice);
  void save_beside(Dice& dice);
  void save_async_beside(Dice& dice);
  void load_beside(Dice& dice);
  void remove_in(Asked asked, Dice& dice);
  void maintain(Dice& dice);
  [[nodiscard]] Asked ask_together(Dice& dice);
  void check_recovery(std::uint64_t number, const store::RecoveryReport& report);
  void check_verification(std::uint64_t number, const store::VerifyReport& report);

  // Coroutines: coroutine_acts.cpp.
  void await_save(bool staged);
  void await_load();
  void await_frame(bool is_lost);
  struct Race;
  Awaitable<> save_in_a_frame(std::uint64_t number, Asked asked, bool* is_over);

  // Contexts, time and remains: context_acts.cpp.
  void rest();
  void close_context();
  void close_meanwhile();
  void look_for_remains(bool is_over);
  void save_to_closed();
  /// Why that may not lie there; empty when it may.
  [[nodiscard]] std::string objection_to(const store::RecoveryEntry& entry, bool is_over) const;

  /// Runs `work`; returns what it threw.
  [[nodiscard]] std::exception_ptr attempt(const std::string& what, const std::function<void()>& work);
  [[nodiscard]] Moment now() const { return clock_->steady_now(); }
  [[nodiscard]] Duration some_time() { return dice_.up_to(longest(program_)); }
  /// Returns whether nothing that is under way can keep an operation on that target waiting.
  [[nodiscard]] bool is_unhindered(std::size_t target) const;
  /// Counts a touch of memory that was given back, if there was one.
  void check_memory();
  void check_duration(const std::string& what, Moment begin, Duration most);
  [[nodiscard]] std::size_t count_of(std::size_t target) const { return program_.element_count(target); }

  const Program& program_;
  const std::filesystem::path folder_;
  Observer& observer_;
  const std::shared_ptr<Journal> journal_;
  const std::shared_ptr<HarnessClock> clock_;
  Dice dice_;
  std::shared_ptr<SlowCalls> system_;
  Oracle oracle_;
  std::unique_ptr<Context> context_;
  std::vector<std::unique_ptr<Context>> closed_;  ///< Contexts whose responses may still be there.
  std::deque<OpenSave> saves_;
  std::deque<OpenLoad> loads_;
  std::size_t adrift_ = 0;  ///< Saves whose answer nobody will hear, and that may still run.
  std::size_t played_ = 0;
  std::size_t played_beside_ = 0;  ///< By other threads.
  mutable std::mutex mutex_;       // Protects what it does, which the watchdog reads.
  std::string doing_;
};

}  // namespace cairn::verdicts
