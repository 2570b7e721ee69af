// SPDX-License-Identifier: Apache-2.0
// What programs do with saves.
#include <utility>

#include <fmt/format.h>

#include "verdicts/player.hpp"
#include "verdicts/sloth.hpp"

namespace cairn::verdicts {
namespace {

/// Most saves, and most loads, that a program has under way.
constexpr std::size_t kMostOpen = 6;

}  // namespace

Asked Player::ask(Dice& dice) {
  Asked asked;
  asked.target = dice.below(oracle_.target_count());
  if (program_.theme != Theme::mixed && !dice.one_in(4)) {
    asked.target = program_.favourite();
  }
  asked.overwrite = !dice.one_in(4);
  if (dice.one_in(program_.theme == Theme::order ? 2 : 4)) {
    asked.deadline = some_time();
  }
  return asked;
}

SaveOptions Player::options_of(const Asked& asked, std::uint64_t number) const {
  SaveOptions options;
  options.overwrite = asked.overwrite;
  options.coalesce = asked.coalesce;
  options.deadline = asked.deadline;
  options.custom_metadata = fmt::format("{}", number);
  return options;
}

void Player::fill(const Loan& loan, std::uint64_t number, std::size_t target) const {
  const auto values = loan.array(count_of(target));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = element(number, i);
  }
}

void Player::hear(std::uint64_t number, const SaveResult& result) {
  if (!result.problems.empty()) {
    journal_->note(fmt::format("save {} has problems: {}", number, result.problems.front()));
    oracle_.tell_problems(number);
  }
}

void Player::save_and_wait() {
  Asked asked = ask(dice_);
  const bool borrows = dice_.one_in(3);
  asked.uses_memory = borrows;
  OpenSave open;
  open.target = asked.target;
  const bool is_unhindered_now = is_unhindered(open.target);
  open.number = oracle_.begin_save(asked);
  open.loan = Loan(count_of(open.target), fmt::format("save {}", open.number));
  fill(open.loan, open.number, open.target);
  SaveOptions options = options_of(asked, open.number);
  options.snapshot = borrows ? Snapshot::borrow : Snapshot::copy;
  const Moment begin = now();
  const auto failure = attempt(
      fmt::format("save {} to t{}{}{}", open.number, open.target, asked.overwrite ? "" : ", not over another",
                  borrows ? ", borrowed" : ""),
      [&] {
        hear(open.number, save(oracle_.path(open.target), open.loan.tree(open.number, count_of(open.target)),
                               options, *context_));
      });
  open.loan.give_back();
  oracle_.end_save(open.number, failure, begin);
  if (is_unhindered_now) {
    check_duration(fmt::format("save {}, which has nothing to do with slow calls,", open.number), begin,
                   Duration::zero());
  }
}

void Player::save_to_open(Act act) {
  if (saves_.size() >= kMostOpen) {
    return wait_save();
  }
  Asked asked = ask(dice_);
  asked.coalesce = act == Act::save_coalescing;
  asked.uses_memory = act == Act::save_borrowed || (act == Act::save_accepted && dice_.one_in(2));
  OpenSave open;
  if (act == Act::save_slothful) {
    asked.target %= kBusyTargets;
    open.sloth.clock = clock_;
    open.sloth.way = static_cast<Sloth::Way>(dice_.below(4));
    open.sloth.time = some_time();
    asked.fails_by_itself = open.sloth.way == Sloth::Way::throws;
  }
  open.target = asked.target;
  open.uses_memory = asked.uses_memory;
  open.context = context_.get();
  open.may_end_early = asked.coalesce || asked.deadline > Duration::zero();
  start_save(std::move(open), act, asked);
}

void Player::start_save(OpenSave open, Act act, const Asked& asked) {
  open.number = oracle_.begin_save(asked);
  SaveOptions options = options_of(asked, open.number);
  options.return_when_accepted = act == Act::save_accepted || (act == Act::save_moved && dice_.one_in(2));
  const bool is_accepted = options.return_when_accepted;
  const Moment begin = now();
  const auto failure = attempt(fmt::format("{} {} to t{}", name(act), open.number, open.target), [&] {
    open.response = std::make_unique<AsyncResponse>(call_save(open, act, std::move(options)));
  });
  if (failure) {
    open.loan.give_back();
    oracle_.end_save(open.number, failure, begin);
    return;
  }
  if (!open.uses_memory && !is_accepted) {
    open.loan.give_back();  // The call has returned: the caller may change his values.
  }
  saves_.push_back(std::move(open));
}

AsyncResponse Player::call_save(OpenSave& open, Act act, SaveOptions options) {
  const std::filesystem::path path = oracle_.path(open.target);
  const std::size_t count = count_of(open.target);
  const std::string owner = fmt::format("save {}", open.number);
  if (act == Act::save_shared) {
    const auto loan = std::make_shared<Loan>(count, owner);
    fill(*loan, open.number, open.target);
    Tree tree;
    tree["n"] = open.number;
    tree["a"] = Array::share(MutableArrayView(loan->array(count)), loan);
    options.snapshot = Snapshot::share;
    return save_async(path, tree, options, *context_);
  }
  if (act == Act::save_moved) {
    std::vector<std::uint64_t> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = element(open.number, i);
    }
    Tree tree;
    tree["n"] = open.number;
    tree["a"] = Array::adopt(std::move(values));
    return save_async(path, std::move(tree), options, *context_);
  }
  options.snapshot = open.uses_memory ? Snapshot::borrow : Snapshot::copy;
  open.loan = Loan(count, owner);
  fill(open.loan, open.number, open.target);
  const Tree& tree = open.loan.tree(open.number, count);
  if (act == Act::save_slothful) {
    return save_checkpointables_async(path, {{"state", tree}, {"sloth", open.sloth}}, options, *context_);
  }
  return save_async(path, tree, options, *context_);
}

OpenSave Player::take_save() {
  const std::size_t at = dice_.below(saves_.size());
  OpenSave open = std::move(saves_[at]);
  saves_.erase(saves_.begin() + static_cast<std::ptrdiff_t>(at));
  return open;
}

void Player::take_back() {
  for (OpenSave& open : saves_) {
    // The events come in their order, so they are looked at in the other one.
    const bool is_done = open.response->is_done();
    const bool is_released = open.response->is_released();
    if (is_done && !is_released) {
      journal_->lie("events", fmt::format("save {} is done, but not released", open.number));
    }
    if (is_released) {
      open.loan.give_back();
    }
  }
}

void Player::finish(OpenSave open) {
  const Moment begin = now();
  const auto failure = attempt(fmt::format("wait for save {}", open.number),
                               [&] { hear(open.number, open.response->wait()); });
  if (open.uses_memory && !open.response->is_released()) {
    journal_->lie("memory",
                  fmt::format("save {} was answered before its memory was given back", open.number));
  }
  if (open.uses_memory) {
    open.loan.give_back();
  }
  oracle_.end_save(open.number, failure, begin);
}

void Player::wait_save() {
  if (saves_.empty()) {
    return rest();
  }
  finish(take_save());
}

void Player::wait_save_a_while() {
  if (saves_.empty()) {
    return save_and_wait();
  }
  OpenSave open = take_save();
  const Moment begin = now();
  const Duration timeout = some_time();
  const auto failure =
      attempt(fmt::format("wait for save {}, up to {} ms", open.number, timeout.count() / 1'000'000),
              [&] { hear(open.number, open.response->wait(timeout)); });
  check_duration("wait(timeout)", begin, timeout);
  if (failure && code_of(failure) == make_error_code(Errc::still_running) && now() >= begin + timeout) {
    journal_->note(fmt::format("save {} is still running", open.number));
    saves_.push_back(std::move(open));
    return;
  }
  oracle_.end_save(open.number, failure, begin);
}

void Player::cancel_save() {
  let_it_work();
  if (saves_.empty()) {
    return save_and_wait();
  }
  OpenSave& open = saves_[dice_.below(saves_.size())];
  oracle_.ask_stop(open.number);
  open.may_end_early = true;
  const Moment begin = now();
  static_cast<void>(attempt(fmt::format("cancel save {}", open.number), [&] { open.response->cancel(); }));
  check_duration("cancel()", begin, Duration::zero());
}

void Player::cancel_waiting() {
  if (saves_.empty()) {
    return save_and_wait();
  }
  OpenSave open = take_save();
  const std::uint64_t alarm = clock_->at(now() + some_time(), [this, &open] {
    oracle_.ask_stop(open.number);
    open.response->cancel();
  });
  const Moment begin = now();
  const auto failure = attempt(fmt::format("wait for save {}, which will be cancelled", open.number),
                               [&] { hear(open.number, open.response->wait()); });
  clock_->forget(alarm);
  oracle_.end_save(open.number, failure, begin);
}

void Player::let_it_work() {
  if (dice_.one_in(2)) {
    // Not until some time has passed, but until nobody has anything to do but slow calls.
    clock_->sleep_for(std::chrono::milliseconds(1), "the program");
  }
}

Duration Player::last_access(const OpenSave& open) const {
  return open.uses_memory ? longest(program_) * kCallsWithMemory : program_.grace;
}

void Player::wait_for_event() {
  if (saves_.empty()) {
    return save_and_wait();
  }
  OpenSave open = take_save();
  const bool is_last = dice_.one_in(2);
  const auto failure =
      attempt(fmt::format("wait until save {} is {}", open.number, is_last ? "done" : "released"),
              [&] { is_last ? open.response->wait_done() : open.response->wait_released(); });
  if (failure || !open.response->is_released() || (is_last && !open.response->is_done())) {
    journal_->lie("events", fmt::format("save {} is not {}", open.number, is_last ? "done" : "released"));
  }
  open.loan.give_back();
  if (!is_last) {
    saves_.push_back(std::move(open));
    return;
  }
  finish(std::move(open));
}

void Player::drop_save() {
  let_it_work();
  if (saves_.empty()) {
    return save_and_wait();
  }
  OpenSave open = take_save();
  const bool was_released = open.response->is_released();
  const Moment begin = now();
  if (!was_released) {
    oracle_.ask_stop(open.number);
  }
  ++adrift_;
  static_cast<void>(attempt(fmt::format("drop save {}", open.number), [&] { open.response.reset(); }));
  open.loan.give_back();
  check_duration("the destructor of a response", begin, was_released ? Duration::zero() : last_access(open));
}

void Player::move_save() {
  let_it_work();
  if (saves_.size() < 2 || dice_.one_in(2)) {
    if (saves_.empty()) {
      return save_and_wait();
    }
    OpenSave& open = saves_[dice_.below(saves_.size())];
    open.response = std::make_unique<AsyncResponse>(std::move(*open.response));
    return;
  }
  OpenSave lost = take_save();
  OpenSave& kept = saves_[dice_.below(saves_.size())];
  const bool was_released = lost.response->is_released();
  if (!was_released) {
    oracle_.ask_stop(lost.number);
  }
  const Moment begin = now();
  ++adrift_;
  static_cast<void>(attempt(fmt::format("move save {} over save {}", kept.number, lost.number),
                            [&] { *lost.response = std::move(*kept.response); }));
  lost.loan.give_back();
  kept.response = std::move(lost.response);
  check_duration("the move assignment of a response", begin,
                 was_released ? Duration::zero() : last_access(lost));
}

}  // namespace cairn::verdicts
