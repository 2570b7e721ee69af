// SPDX-License-Identifier: Apache-2.0
// What programs do with loads, and with metadata.
#include <utility>

#include <fmt/format.h>

#include "verdicts/player.hpp"

namespace cairn::verdicts {
namespace {

constexpr std::size_t kMostOpenLoads = 4;

}  // namespace

Requests Player::requests_of(OpenLoad& open) const {
  if (!open.loan.is_lent()) {
    return {"state"};
  }
  const std::size_t count = count_of(open.target);
  AbstractTree wanted;
  wanted["n"] = AbstractTree(TreeKind::integer);
  AbstractArray array(Shape{count}, DType::uint64);
  array.place_into(MutableArrayView(open.loan.array(count)));
  wanted["a"] = AbstractTree(std::move(array));
  Requests requests;
  requests.emplace_back("state", std::move(wanted));
  return requests;
}

OpenLoad Player::begin_load(const Asked& asked, bool into) {
  OpenLoad open;
  open.target = asked.target;
  open.number = oracle_.begin_load(asked);
  if (into) {
    open.loan = Loan(count_of(open.target), fmt::format("load {}", open.number));
  }
  return open;
}

std::optional<std::uint64_t> Player::value_of(Loaded loaded, const OpenLoad& open) {
  try {
    const Tree state = loaded.take<Tree>("state");
    const auto number = state.get<std::uint64_t>("n");
    if (const std::string problem = Observer::check_state(state, number, count_of(open.target));
        !problem.empty()) {
      journal_->lie("load", fmt::format("load {}: {}", open.number, problem));
    }
    if (open.loan.is_lent() &&
        state.get<std::span<const std::uint64_t>>("a").data() != open.loan.array(1).data()) {
      journal_->lie("load", fmt::format("load {}: its array is not where it was asked to be", open.number));
    }
    return number;
  } catch (const Error& error) {  // Of a load that is said to have succeeded.
    journal_->lie("load", fmt::format("load {}: {}", open.number, error.what()));
    return std::nullopt;
  }
}

void Player::load_and_wait(bool into) {
  Asked asked = ask(dice_);
  asked.uses_memory = into;
  OpenLoad open = begin_load(asked, into);
  LoadOptions options;
  options.deadline = asked.deadline;
  const bool is_calm = open.target >= kBusyTargets;
  const Moment begin = now();
  std::optional<std::uint64_t> value;
  const auto failure =
      attempt(fmt::format("load {} of t{}{}", open.number, open.target, into ? ", into memory" : ""), [&] {
        value = value_of(
            load_checkpointables(oracle_.path(open.target), requests_of(open), options, *context_), open);
      });
  open.loan.give_back();
  oracle_.end_load(open.number, value, failure, begin);
  if (is_calm) {
    check_duration(fmt::format("load {}, which has nothing to do with slow calls,", open.number), begin,
                   Duration::zero());
  }
}

void Player::load_to_open(bool into) {
  if (loads_.size() >= kMostOpenLoads) {
    return wait_load();
  }
  Asked asked = ask(dice_);
  asked.uses_memory = into;
  OpenLoad open = begin_load(asked, into);
  LoadOptions options;
  options.deadline = asked.deadline;
  const Moment begin = now();
  const auto failure = attempt(
      fmt::format("load_async {} of t{}{}", open.number, open.target, into ? ", into memory" : ""), [&] {
        open.response = std::make_unique<LoadResponse>(
            load_checkpointables_async(oracle_.path(open.target), requests_of(open), options, *context_));
      });
  if (failure) {
    open.loan.give_back();
    oracle_.end_load(open.number, std::nullopt, failure, begin);
    return;
  }
  loads_.push_back(std::move(open));
}

OpenLoad Player::take_load() {
  const std::size_t at = dice_.below(loads_.size());
  OpenLoad open = std::move(loads_[at]);
  loads_.erase(loads_.begin() + static_cast<std::ptrdiff_t>(at));
  return open;
}

void Player::finish(OpenLoad open) {
  const Moment begin = now();
  std::optional<std::uint64_t> value;
  const bool is_read = open.loan.is_lent();
  std::optional<Loaded> loaded;
  const auto failure =
      attempt(fmt::format("wait for load {}", open.number), [&] { loaded = open.response->wait(); });
  if (is_read && !open.response->is_released()) {
    journal_->lie("memory",
                  fmt::format("load {} was answered before its memory was given back", open.number));
  }
  if (loaded) {
    value = value_of(std::move(*loaded), open);
  }
  open.loan.give_back();
  oracle_.end_load(open.number, value, failure, begin);
}

void Player::wait_load() {
  if (loads_.empty()) {
    return load_and_wait(true);
  }
  finish(take_load());
}

void Player::wait_load_a_while() {
  if (loads_.empty()) {
    return load_and_wait(true);
  }
  OpenLoad open = take_load();
  const Moment begin = now();
  const Duration timeout = some_time();
  std::optional<std::uint64_t> value;
  const auto failure =
      attempt(fmt::format("wait for load {}, up to {} ms", open.number, timeout.count() / 1'000'000),
              [&] { value = value_of(open.response->wait(timeout), open); });
  check_duration("wait(timeout)", begin, timeout);
  if (failure && code_of(failure) == make_error_code(Errc::still_running) && now() >= begin + timeout) {
    journal_->note(fmt::format("load {} is still running", open.number));
    loads_.push_back(std::move(open));
    return;
  }
  oracle_.end_load(open.number, value, failure, begin);
}

void Player::cancel_load() {
  let_it_work();
  if (loads_.empty()) {
    return load_and_wait(false);
  }
  OpenLoad& open = loads_[dice_.below(loads_.size())];
  oracle_.ask_stop(open.number);
  const Moment begin = now();
  static_cast<void>(attempt(fmt::format("cancel load {}", open.number), [&] { open.response->cancel(); }));
  check_duration("cancel()", begin, Duration::zero());
}

void Player::drop_load() {
  let_it_work();
  if (loads_.empty()) {
    return load_and_wait(false);
  }
  OpenLoad open = take_load();
  const bool was_released = open.response->is_released();
  const Moment begin = now();
  static_cast<void>(attempt(fmt::format("drop load {}", open.number), [&] { open.response.reset(); }));
  open.loan.give_back();
  check_duration("the destructor of a response", begin,
                 was_released ? Duration::zero() : longest(program_) * kCallsWithMemory);
}

void Player::describe_target() {
  Asked asked = ask(dice_);
  asked.deadline = Duration::zero();
  const std::uint64_t number = oracle_.begin_load(asked);
  const Moment begin = now();
  std::optional<std::uint64_t> value;
  const auto failure = attempt(fmt::format("metadata {} of t{}", number, asked.target), [&] {
    const CheckpointMetadata said = checkpointables_metadata(oracle_.path(asked.target), *context_);
    value = std::stoull(said.custom_metadata);
  });
  oracle_.end_load(number, value, failure, begin);
}

}  // namespace cairn::verdicts
