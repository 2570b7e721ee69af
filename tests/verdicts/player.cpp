// SPDX-License-Identifier: Apache-2.0
#include "verdicts/player.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "verdicts/sloth.hpp"

namespace cairn::verdicts {
namespace {

constexpr std::chrono::seconds kTimeToTell{3};  // Of the machine's time; no more than it needs.

std::vector<std::filesystem::path> targets_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> targets;
  for (std::size_t i = 0; i < kBusyTargets + kCalmTargets; ++i) {
    const std::filesystem::path part = i < kBusyTargets ? "busy" : "calm";
    targets.push_back(folder / part / fmt::format("t{}", i));
  }
  return targets;
}

}  // namespace

Player::Player(const Program& program, const std::filesystem::path& folder, Observer& observer,
               std::shared_ptr<Journal> journal, std::shared_ptr<HarnessClock> clock)
    : program_(program),
      folder_(folder),
      observer_(observer),
      journal_(std::move(journal)),
      clock_(std::move(clock)),
      dice_(program.seed, 1),
      system_(std::make_shared<SlowCalls>(clock_, journal_, program.seed, program.disturbances)),
      oracle_(*journal_, *clock_, *system_, observer, targets_in(folder), program) {
  std::filesystem::create_directories(folder_ / "busy");
  std::filesystem::create_directories(folder_ / "calm");
  make_context();
}

Player::~Player() = default;

void Player::make_context() {
  ContextOptions options;
  options.engine = program_.engine;
  options.queue_depth = 4;
  options.saves_in_flight = program_.saves_in_flight;
  options.worker_threads = program_.worker_threads;
  options.staging_bytes = program_.staging_bytes;
  options.close_timeout = program_.close_timeout;
  options.syscalls = system_;
  options.clock = clock_;
  options.registry.add<SlothHandler>();
  options.stop_grace = program_.grace;
  if (context_ != nullptr && !dice_.one_in(8)) {
    closed_.push_back(std::move(context_));  // To destroy it while there are responses takes its time.
  }
  context_ = std::make_unique<Context>(std::move(options));
}

std::string Player::describe() const {
  const std::lock_guard lock(mutex_);
  return fmt::format("act {} of {}: {}\n", played_, program_.acts.size(), doing_);
}

std::exception_ptr Player::attempt(const std::string& what, const std::function<void()>& work) {
  {
    const std::lock_guard lock(mutex_);
    doing_ = what;
  }
  journal_->note(what);
  try {
    work();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void Player::check_memory() {
  if (const auto owner = GuardedMemory::the().take_touch()) {
    journal_->lie("touch", "the memory of " + *owner + " was touched after it was given back");
  }
}

std::size_t Player::going_on() const {
  return static_cast<std::size_t>(std::count_if(saves_.begin(), saves_.end(), [this](const OpenSave& open) {
    return open.context == context_.get() && !open.may_end_early && open.response->is_staged() &&
           !open.response->is_done();
  }));
}

void Player::check_budgets() {
  if (context_->pool_bytes() > program_.staging_bytes) {  // What is beyond is each operation's own.
    journal_->lie("budget", fmt::format("{} bytes are there for staging", context_->pool_bytes()));
  }
  if (program_.saves_in_flight == 0 || going_on() <= program_.saves_in_flight) {
    return;
  }
  // One of them may be ending just now: its events come one after the other. Not asleep: else the clock would go on.
  const auto end = std::chrono::steady_clock::now() + kTimeToTell;
  while (going_on() > program_.saves_in_flight && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  if (going_on() > program_.saves_in_flight) {
    journal_->lie("budget",
                  fmt::format("{} saves go on at once, not {}", going_on(), program_.saves_in_flight));
  }
}

bool Player::is_unhindered(std::size_t target) const {
  if (target < kBusyTargets || oracle_.is_busy(target)) {
    return false;
  }
  // Those before it may use up the saves that go on at once, until they are answered.
  return program_.saves_in_flight == 0 ||
         (adrift_ == 0 && std::all_of(saves_.begin(), saves_.end(),
                                      [](const OpenSave& open) { return open.response->is_done(); }));
}

void Player::check_duration(const std::string& what, Moment begin, Duration most) {
  const Duration slack = clock_->is_manual() ? Duration::zero() : Duration(std::chrono::seconds(5));
  const Duration took = now() - begin;
  if (took > most + slack) {
    journal_->lie("late", fmt::format("{} took {:.3f} s, not {:.3f} s", what,
                                      std::chrono::duration<double>(took).count(),
                                      std::chrono::duration<double>(most).count()));
  }
}

void Player::play() {
  journal_->note(program_.describe());
  if (program_.theme != Theme::mixed) {
    save_favourite();  // Or there would be nothing to load, and nothing to replace.
  }
  system_->stir_up();
  for (const Act next : program_.acts) {
    ++played_;
    dice_ = Dice(program_.seed, 100 + played_);
    try {
      act(next);
    } catch (const std::exception& error) {
      journal_->lie("thrown", error.what());
    }
    take_back();
    check_memory();
    check_budgets();
  }
  settle();
}

void Player::save_favourite() {
  Asked asked;
  asked.target = program_.favourite();
  const std::uint64_t number = oracle_.begin_save(asked);
  Loan loan(count_of(asked.target), fmt::format("save {}", number));
  fill(loan, number, asked.target);
  const Moment begin = now();
  const auto failure = attempt(fmt::format("save {} to t{}, in peace", number, asked.target), [&] {
    save(oracle_.path(asked.target), loan.tree(number, count_of(asked.target)), options_of(asked, number),
         *context_);
  });
  loan.give_back();
  oracle_.end_save(number, failure, begin);
}

void Player::act(Act act) {
  journal_->count(std::string("acts: ") + std::string(name(act)));
  switch (act) {
    case Act::save:
      return save_and_wait();
    case Act::save_async:
    case Act::save_accepted:
    case Act::save_borrowed:
    case Act::save_shared:
    case Act::save_moved:
    case Act::save_coalescing:
    case Act::save_slothful:
      return save_to_open(act);
    case Act::wait_save:
      return wait_save();
    case Act::wait_save_a_while:
      return wait_save_a_while();
    case Act::cancel_save:
      return cancel_save();
    case Act::cancel_waiting:
      return cancel_waiting();
    case Act::wait_for_event:
      return wait_for_event();
    case Act::drop_save:
      return drop_save();
    case Act::move_save:
      return move_save();
    case Act::load:
    case Act::load_into:
      return load_and_wait(act == Act::load_into);
    case Act::load_async:
    case Act::load_async_into:
      return load_to_open(act == Act::load_async_into);
    case Act::wait_load:
      return wait_load();
    case Act::wait_load_a_while:
      return wait_load_a_while();
    case Act::cancel_load:
      return cancel_load();
    case Act::drop_load:
      return drop_load();
    case Act::describe:
      return describe_target();
    case Act::remove: {
      Asked asked;
      asked.target = dice_.below(oracle_.target_count());
      return remove_in(asked, dice_);
    }
    case Act::together:
      return act_together();
    case Act::maintain:
      return maintain(dice_);
    case Act::rest:
      return rest();
    case Act::look:
      return oracle_.look_at(dice_.below(oracle_.target_count()), dice_.one_in(4));
    case Act::look_for_remains:
      return look_for_remains(false);
    case Act::close:
      return close_context();
    case Act::close_meanwhile:
      return close_meanwhile();
    case Act::await_staged:
    case Act::await_committed:
      return await_save(act == Act::await_staged);
    case Act::await_loaded:
      return await_load();
    case Act::await_frame:
    case Act::lose_frame:
      return await_frame(act == Act::lose_frame);
  }
}

void Player::settle() {
  system_->calm_down();
  while (!saves_.empty()) {
    finish(take_save());
  }
  while (!loads_.empty()) {
    finish(take_load());
  }
  close_context();
  closed_.clear();
  // Calls that were slow when all calmed down end within this, and so does what a handler does that heeds nothing.
  const Duration all = longest(program_) * 3;
  static_cast<void>(attempt("rest until all has ended", [&] { clock_->sleep_for(all, "the program"); }));
  oracle_.look_at_all();
  look_for_remains(true);
  static_cast<void>(attempt("rest once more", [&] { clock_->sleep_for(all, "the program"); }));
  oracle_.look_at_all();
  check_memory();
}

}  // namespace cairn::verdicts
