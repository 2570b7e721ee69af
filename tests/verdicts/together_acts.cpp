// SPDX-License-Identifier: Apache-2.0
// What several threads of a program do at the same time, with one context; and what asks the disk and is no operation.
#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "verdicts/player.hpp"

namespace cairn::verdicts {
namespace {

constexpr std::size_t kMostThreads = 4;
constexpr std::size_t kMostSteps = 6;

}  // namespace

Asked Player::ask_together(Dice& dice) {
  Asked asked = ask(dice);
  asked.is_alone = false;
  if (dice.one_in(2)) {
    asked.target = program_.favourite();  // Where they meet.
  }
  return asked;
}

void Player::act_together() {
  std::vector<std::thread> crowd;
  const std::size_t threads = 2 + dice_.below(kMostThreads - 1);
  for (std::size_t i = 0; i < threads; ++i) {
    Dice dice(program_.seed, kActsOfOthers + played_ * kMostThreads + i);
    const std::size_t steps = 1 + dice.below(kMostSteps);
    played_beside_ += steps;
    crowd.emplace_back([this, dice, steps]() mutable {
      for (std::size_t step = 0; step < steps; ++step) {
        try {
          act_beside(dice);
        } catch (const std::exception& error) {
          journal_->lie("thrown", error.what());
        }
      }
    });
  }
  for (std::thread& thread : crowd) {
    thread.join();
  }
}

void Player::act_beside(Dice& dice) {
  switch (dice.below(10)) {
    case 0:
    case 1:
      return save_beside(dice);
    case 2:
    case 3:
    case 4:
    case 5:
      return save_async_beside(dice);
    case 6:
      return load_beside(dice);
    case 7:
      return maintain(dice);
    default:
      return remove_in(ask_together(dice), dice);
  }
}

void Player::save_beside(Dice& dice) {
  const Asked asked = ask_together(dice);
  const std::uint64_t number = oracle_.begin_save(asked);
  Loan loan(count_of(asked.target), fmt::format("save {}", number));
  fill(loan, number, asked.target);
  const Moment begin = now();
  const auto failure = attempt(fmt::format("save {} to t{}, together", number, asked.target), [&] {
    hear(number, save(oracle_.path(asked.target), loan.tree(number, count_of(asked.target)),
                      options_of(asked, number), *context_));
  });
  loan.give_back();
  oracle_.end_save(number, failure, begin);
}

void Player::save_async_beside(Dice& dice) {
  const Asked asked = ask_together(dice);
  const std::uint64_t number = oracle_.begin_save(asked);
  SaveOptions options = options_of(asked, number);
  options.return_when_accepted = dice.one_in(2);
  std::vector<std::uint64_t> values(count_of(asked.target));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = element(number, i);
  }
  Tree tree;
  tree["n"] = number;
  tree["a"] = Array::adopt(std::move(values));
  Moment begin = now();
  const auto failure = attempt(fmt::format("save_async {} to t{}, together", number, asked.target), [&] {
    AsyncResponse response = save_async(oracle_.path(asked.target), std::move(tree), options, *context_);
    oracle_.place(number);
    if (dice.one_in(4)) {
      clock_->sleep_for(dice.up_to(longest(program_)), "who will cancel");
      oracle_.ask_stop(number);
      response.cancel();
    }
    begin = now();
    hear(number, response.wait());
  });
  oracle_.end_save(number, failure, begin);
}

void Player::load_beside(Dice& dice) {
  const Asked asked = ask_together(dice);
  OpenLoad open = begin_load(asked, false);
  LoadOptions options;
  options.deadline = asked.deadline;
  const Moment begin = now();
  std::optional<std::uint64_t> value;
  const auto failure = attempt(fmt::format("load {} of t{}, together", open.number, open.target), [&] {
    value = value_of(load_checkpointables(oracle_.path(open.target), requests_of(open), options, *context_),
                     open);
  });
  oracle_.end_load(open.number, value, failure, begin);
}

void Player::remove_in(Asked asked, Dice& dice) {
  if (!dice.one_in(3)) {
    asked.deadline = dice.up_to(longest(program_));
  }
  const std::uint64_t number = oracle_.begin_removal(asked);
  RemoveOptions options;
  options.deadline = asked.deadline;
  const Moment begin = now();
  const auto failure = attempt(fmt::format("removal {} of t{}", number, asked.target), [&] {
    static_cast<void>(remove_checkpoint(oracle_.path(asked.target), options, *context_));
  });
  oracle_.end_removal(number, failure, begin);
}

void Player::maintain(Dice& dice) {
  const Asked asked = ask_together(dice);
  const std::uint64_t number = oracle_.begin_load(asked);
  const Moment begin = now();
  std::exception_ptr failure;
  if (dice.one_in(3)) {
    RecoverOptions options;
    options.deadline = asked.deadline;
    const std::filesystem::path root = oracle_.path(asked.target).parent_path();
    oracle_.begin_recovery();
    failure = attempt(fmt::format("recovery {} of {}", number, root.filename().string()),
                      [&] { check_recovery(number, recover(root, options, *context_)); });
  } else if (dice.one_in(2)) {
    VerifyOptions options;
    options.verification.threads = 1;
    options.deadline = asked.deadline;
    failure = attempt(fmt::format("verification {} of t{}", number, asked.target), [&] {
      check_verification(number, verify(oracle_.path(asked.target), options, *context_));
    });
  } else {
    LoadOptions options;
    options.deadline = asked.deadline;
    failure = attempt(fmt::format("metadata {} of t{}", number, asked.target), [&] {
      static_cast<void>(checkpointables_metadata(oracle_.path(asked.target), options, *context_));
    });
  }
  oracle_.end_load(number, std::nullopt, failure, begin);
}

void Player::check_recovery(std::uint64_t number, const store::RecoveryReport& report) {
  for (const store::RecoveryEntry& entry : report.entries) {
    // What is being removed, or was in part, has a name that begins with a dot.
    if (entry.kind == store::EntryClass::damaged && !entry.name.starts_with(".")) {
      journal_->lie("remains", fmt::format("recovery {}: {} is damaged: {}", number, entry.name, entry.note));
    }
  }
}

void Player::check_verification(std::uint64_t number, const store::VerifyReport& report) {
  for (const store::VerifyProblem& problem : report.problems) {
    if (problem.damage != store::Damage::unreadable) {  // The system may have refused a read.
      journal_->lie("damage", fmt::format("verification {}: {}", number, problem.text));
    }
  }
}

}  // namespace cairn::verdicts
