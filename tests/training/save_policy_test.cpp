// SPDX-License-Identifier: Apache-2.0
#include "cairn/training/save_policy.hpp"

#include <chrono>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/dice.hpp"
#include "support/fails.hpp"

namespace cairn {
namespace {

using std::chrono::seconds;
using testing::Dice;
using testing::Fails;
using ::testing::HasSubstr;

/// A moment with what it shows.
struct History {
  std::vector<std::uint64_t> steps;
  SaveMoment moment;

  [[nodiscard]] SaveMoment shown() const {
    SaveMoment shown = moment;
    shown.steps = steps;
    return shown;
  }
};

History random_history(Dice& dice) {
  History history;
  std::set<std::uint64_t> steps;
  for (std::size_t i = dice.below(20); i-- > 0;) {
    steps.insert(dice.below(100));
  }
  history.steps.assign(steps.begin(), steps.end());
  history.moment.step = dice.one_in(4) ? dice.next() : dice.below(120);
  history.moment.is_saving = dice.one_in(2);
  history.moment.is_preempted = dice.one_in(5);
  if (!dice.one_in(4)) {
    history.moment.since_last_save = seconds(dice.below(20));
  }
  return history;
}

/// Each policy with a model of it that is too simple to be wrong.
struct ModelledSave {
  SavePolicy policy;
  std::function<bool(const History& history)> model;
};

std::vector<ModelledSave> modelled_saves() {
  const std::set<std::uint64_t> wanted = {3, 5, 80, 7};
  return {
      {save_when::asked(), [](const History&) { return true; }},
      {save_when::every_steps(7),
       [](const History& history) { return history.moment.step - history.moment.step / 7 * 7 == 0; }},
      {save_when::every_steps(1), [](const History&) { return true; }},
      {save_when::at_steps({80, 3, 7, 5, 3}),
       [wanted](const History& history) { return wanted.count(history.moment.step) == 1; }},
      {save_when::first(), [](const History& history) { return history.steps.empty(); }},
      {save_when::preempted(), [](const History& history) { return history.moment.is_preempted; }},
      {save_when::continuously(), [](const History& history) { return !history.moment.is_saving; }},
      {save_when::continuously(seconds(10)),
       [](const History& history) {
         const bool is_late = history.moment.since_last_save.value_or(seconds(10)) >= seconds(10);
         return is_late && !history.moment.is_saving;
       }},
      {save_when::any_of({save_when::every_steps(10), save_when::first(), save_when::preempted()}),
       [](const History& history) {
         return history.moment.step % 10 == 0 || history.steps.empty() || history.moment.is_preempted;
       }},
      {save_when::all_of({save_when::every_steps(2), save_when::continuously(seconds(5))}),
       [](const History& history) {
         return history.moment.step % 2 == 0 && !history.moment.is_saving &&
                history.moment.since_last_save.value_or(seconds(5)) >= seconds(5);
       }},
      {save_when::any_of({}), [](const History&) { return false; }},
      {[](const SaveMoment& moment) { return moment.steps.size() > 3; },
       [](const History& history) { return history.steps.size() > 3; }},
  };
}

TEST(SavePolicy, DecidesAsItsModelOnRandomHistories) {
  for (const ModelledSave& each : modelled_saves()) {
    Dice dice(7);
    for (int i = 0; i < 5000; ++i) {
      const History history = random_history(dice);
      ASSERT_EQ(each.policy(history.shown()), each.model(history))
          << each.policy.name() << " at step " << history.moment.step << " of history " << i;
    }
  }
}

TEST(SavePolicy, OnlyThoseOfTimeAskForTheTime) {
  EXPECT_FALSE(save_when::any_of({save_when::every_steps(3), save_when::at_steps({1}), save_when::first(),
                                  save_when::preempted(), save_when::asked()})
                   .asks_time());
  EXPECT_TRUE(save_when::continuously()
                  .asks_time());  // Whether a save is in flight ranks see differently, as they do times.
  EXPECT_TRUE(
      save_when::any_of({save_when::every_steps(3), save_when::continuously(seconds(1))}).asks_time());
  EXPECT_TRUE(save_when::all_of({save_when::continuously(seconds(1))}).asks_time());
  EXPECT_TRUE(SavePolicy([](const SaveMoment&) { return true; }).asks_time());
}

TEST(SavePolicy, OfAnIntervalOfZeroIsRefusedByName) {
  EXPECT_THAT([] { static_cast<void>(save_when::every_steps(0)); },
              Fails(Errc::invalid_argument, HasSubstr("'every_steps'")));
}

TEST(SavePolicy, OfNobodyWhoAgreesIsRefused) {
  EXPECT_THAT([] { static_cast<void>(save_when::all_of({})); },
              Fails(Errc::invalid_argument, HasSubstr("'all_of'")));
}

TEST(SavePolicy, ThatThrowsIsNamed) {
  const SavePolicy policy("mine", false,
                          [](const SaveMoment&) -> bool { throw std::runtime_error("no idea"); });

  EXPECT_THAT([&] { static_cast<void>(policy(SaveMoment())); },
              Fails(Errc::handler_failed, ::testing::AllOf(HasSubstr("'mine'"), HasSubstr("no idea"))));
}

}  // namespace
}  // namespace cairn
