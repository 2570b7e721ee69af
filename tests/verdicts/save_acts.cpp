// SPDX-License-Identifier: Apache-2.0
// What programs do with saves.
#include <utility>

#include <fmt/format.h>

#include "core/internal/start.hpp"
#include "verdicts/player.hpp"
#include "verdicts/sloth.hpp"

namespace cairn::verdicts {
namespace {

/// Most saves that a program has under way.
constexpr std::size_t kMostOpenSaves = 6;

}  // namespace

Asked Player::ask(Dice& dice) {
  Asked asked;
  asked.target = dice.below(oracle_.target_count());
  if (program_.theme != Theme::mixed && !dice.one_in(4)) {
    asked.target = program_.favourite();
  }
  asked.overwrite = !dice.one_in(4);
  if (dice.one_in(program_.theme == Theme::order ? 2 : 4)) {
    asked.deadline = dice.up_to(longest(program_));
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
  const Expectation expectation(*clock_, is_unhindered_now && clock_->is_manual() ? begin : Moment::max());
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
  if (saves_.size() >= kMostOpenSaves) {
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

}  // namespace cairn::verdicts
