// SPDX-License-Identifier: Apache-2.0
// What programs do with the responses of saves.
#include <utility>

#include <fmt/format.h>

#include "verdicts/player.hpp"

namespace cairn::verdicts {

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
  const Expectation expectation(*clock_, oracle_.latest_answer(open.number));
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
  const Expectation expectation(*clock_, oracle_.latest_answer(open.number));
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
