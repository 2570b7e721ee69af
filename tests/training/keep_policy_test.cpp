// SPDX-License-Identifier: Apache-2.0
#include "cairn/training/keep_policy.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/dice.hpp"
#include "support/fails.hpp"
#include "training/histories.hpp"

namespace cairn {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using testing::Dice;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::random_steps;
using testing::step_info;
using testing::step_infos;

constexpr CommitTime kNow{seconds(1060)};

using Numbers = std::vector<std::uint64_t>;

Numbers kept(const KeepPolicy& policy, const std::vector<StepInfo>& steps, CommitTime now = kNow) {
  Numbers numbers;
  const std::vector<bool> is_kept = policy(steps, now);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (is_kept[i]) {
      numbers.push_back(steps[i].step);
    }
  }
  return numbers;
}

/// Each policy with a model that looks at each step by itself, in the words of the documentation, however long that
/// takes.
struct ModelledKeep {
  KeepPolicy policy;
  std::function<bool(const std::vector<StepInfo>& steps, std::size_t index)> model;
};

using Steps = std::vector<StepInfo>;

using Wide = __int128;  // Twice a step does not fit into 64 bits.

/// Rounded, a half upwards.
Wide multiple_of(const StepInfo& step, Wide interval) {
  return (2 * Wide{step.step} + interval) / (2 * interval);
}

bool is_nearest(const Steps& steps, std::size_t index, Wide interval) {
  const Wide multiple = multiple_of(steps[index], interval);
  const auto away = [&](const StepInfo& step) {
    const Wide distance = Wide{step.step} - multiple * interval;
    return distance < 0 ? -distance : distance;
  };
  for (std::size_t other = 0; other < steps.size(); ++other) {
    const bool is_better = away(steps[other]) < away(steps[index]) ||
                           (away(steps[other]) == away(steps[index]) && other > index);
    if (multiple_of(steps[other], interval) == multiple && is_better) {
      return false;
    }
  }
  return true;
}

/// Returns whether fewer than `count` steps are better, or as good and later.
bool is_among_best(const Steps& steps, std::size_t index, std::size_t count, double sign, bool keeps_others) {
  const auto loss = [&](std::size_t at) {
    const auto metric = steps[at].metrics.find("loss");
    return metric == steps[at].metrics.end() ? std::optional<double>() : std::optional(sign * metric->second);
  };
  const std::optional<double> own = loss(index);
  if (!own) {
    return keeps_others;
  }
  std::size_t better = 0;
  for (std::size_t other = 0; other < steps.size(); ++other) {
    const std::optional<double> its = loss(other);
    better += its && (*its > *own || (*its == *own && other > index)) ? 1 : 0;
  }
  return !std::isnan(*own) && better < count;
}

/// Returns whether a step is kept when one after the other is looked at.
bool is_kept_apart(std::size_t steps, std::size_t index,
                   const std::function<bool(std::size_t last, std::size_t at)>& is_far) {
  std::optional<std::size_t> last;
  for (std::size_t at = 0; at < steps && at <= index; ++at) {
    if (!last || is_far(*last, at)) {
      last = at;
    }
  }
  return last == index;
}

bool is_apart_in_time(const Steps& steps, std::size_t index, std::chrono::nanoseconds interval) {
  if (!steps[index].committed) {
    return true;
  }
  std::vector<CommitTime> times;
  std::size_t index_of_timed = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].committed) {
      index_of_timed = i == index ? times.size() : index_of_timed;
      times.push_back(*steps[i].committed);
    }
  }
  return is_kept_apart(times.size(), index_of_timed, [&](std::size_t last, std::size_t at) {
    const bool is_set_back = times[at] < times[at - 1];
    return is_set_back || times[at] - times[last] >= interval;
  });
}

std::vector<ModelledKeep> modelled_keeps() {
  std::vector<ModelledKeep> all = {
      {keep::all(), [](const Steps&, std::size_t) { return true; }},
      {keep::at_steps({9, 4, 12}),
       [](const Steps& steps, std::size_t i) {
         return steps[i].step == 4 || steps[i].step == 9 || steps[i].step == 12;
       }},
      {keep::younger_than(seconds(60)),
       [](const Steps& steps, std::size_t i) {
         return !steps[i].committed || *steps[i].committed > kNow - seconds(60);
       }},
      {keep::any_of({keep::latest(2), keep::every_steps(10)}),
       [](const Steps& steps, std::size_t i) { return i + 2 >= steps.size() || steps[i].step % 10 == 0; }},
      {keep::any_of({}), [](const Steps&, std::size_t) { return false; }},
  };
  for (const std::size_t n : {0u, 1u, 3u, 100u}) {
    all.push_back(
        {keep::latest(n), [n](const Steps& steps, std::size_t i) { return i + n >= steps.size(); }});
    for (const Prefer prefer : {Prefer::lower, Prefer::higher}) {
      all.push_back({keep::best("loss", n, prefer), [n, prefer](const Steps& steps, std::size_t i) {
                       return is_among_best(steps, i, n, prefer == Prefer::higher ? 1 : -1, true);
                     }});
    }
  }
  for (const std::uint64_t n : {1u, 2u, 7u, 100u}) {
    all.push_back({keep::every_steps(n), [n](const Steps& steps, std::size_t i) {
                     return steps[i].step / n * n == steps[i].step;
                   }});
    all.push_back({keep::steps_apart(n), [n](const Steps& steps, std::size_t i) {
                     const auto is_far = [&](std::size_t last, std::size_t at) {
                       return steps[at].step - steps[last].step >= n;
                     };
                     return is_kept_apart(steps.size(), i, is_far);
                   }});
    all.push_back({keep::nearest_to_every(n),
                   [n](const Steps& steps, std::size_t i) { return is_nearest(steps, i, n); }});
    all.push_back({keep::time_apart(seconds(n)), [n](const Steps& steps, std::size_t i) {
                     return is_apart_in_time(steps, i, seconds(n));
                   }});
  }
  return all;
}

TEST(KeepPolicy, DecidesAsItsModelOnRandomHistories) {
  for (const ModelledKeep& each : modelled_keeps()) {
    Dice dice(11);
    for (int history = 0; history < 150; ++history) {
      const Steps steps = history % 75 == 0 ? random_steps(dice, testing::kThousands) : random_steps(dice);
      const std::vector<bool> is_kept = each.policy(steps, kNow);
      for (std::size_t i = 0; i < std::min<std::size_t>(steps.size(), 100); ++i) {
        ASSERT_EQ(is_kept[i], each.model(steps, i))
            << each.policy.name() << ": step " << steps[i].step << " of history " << history;
      }
    }
  }
}

TEST(KeepPolicy, HalfWayBetweenTwoMultiplesBelongsToTheUpper) {
  EXPECT_THAT(kept(keep::nearest_to_every(10), step_infos({1, 4, 5, 14, 15, 20})), ElementsAre(1, 14, 20));
}

TEST(KeepPolicy, OfTwoThatAreEquallyNearTheLaterIsKept) {
  EXPECT_THAT(kept(keep::nearest_to_every(10), step_infos({9, 11})), ElementsAre(11));
}

TEST(KeepPolicy, ANanIsNeverBest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Steps steps = {step_info(1, {}, {{"loss", 2}}), step_info(2, {}, {{"loss", nan}}),
                       step_info(3, {}, {{"loss", 1}})};

  EXPECT_THAT(kept(keep::best("loss", 1, Prefer::lower), steps), ElementsAre(3));
  EXPECT_THAT(kept(keep::best("loss", 1, Prefer::higher), steps), ElementsAre(1));
  EXPECT_THAT(kept(keep::best("loss", 3, Prefer::lower), steps), ElementsAre(1, 3));
}

TEST(KeepPolicy, StepsThatWereNotMeasuredAreKeptOrDropped) {
  const Steps steps = {step_info(1, {}, {{"loss", 2}}), step_info(2), step_info(3, {}, {{"loss", 1}})};

  EXPECT_THAT(kept(keep::best("loss", 1, Prefer::lower), steps), ElementsAre(2, 3));
  EXPECT_THAT(kept(keep::best("loss", 1, Prefer::lower, Unmeasured::drop), steps), ElementsAre(3));
}

TEST(KeepPolicy, AMistypedMetricRemovesNothing) {
  const Steps steps = {step_info(1, {}, {{"loss", 2}})};

  EXPECT_THAT([&] { kept(keep::best("lsos", 1, Prefer::lower, Unmeasured::drop), steps); },
              Fails(Errc::not_found, HasSubstr("'lsos'")));
  EXPECT_THAT(kept(keep::best("lsos", 1, Prefer::lower, Unmeasured::drop), {}), IsEmpty());
}

TEST(KeepPolicy, BestByTakesAnyFunctionOfAStep) {
  const auto odd = [](const StepInfo& step) {
    return step.step % 2 == 1 ? std::optional(-static_cast<double>(step.step)) : std::nullopt;
  };

  EXPECT_THAT(kept(keep::best_by("oddness", odd, 1, Prefer::higher, Unmeasured::drop), step_infos({2, 3, 5})),
              ElementsAre(3));
}

TEST(KeepPolicy, AClockThatWasSetBackBeginsToCountAgain) {
  const Steps steps = {step_info(1, seconds(1000)), step_info(2, seconds(1005)), step_info(3, seconds(10)),
                       step_info(4, seconds(15)), step_info(5, seconds(20))};

  EXPECT_THAT(kept(keep::time_apart(seconds(10)), steps), ElementsAre(1, 3, 5));
}

TEST(KeepPolicy, WhatIsOfTheFutureIsYoung) {
  EXPECT_THAT(kept(keep::younger_than(seconds(1)), {step_info(1, seconds(999)), step_info(2, seconds(2000))}),
              ElementsAre(2));
}

TEST(KeepPolicy, OfAnIntervalOfZeroIsRefusedByName) {
  EXPECT_THAT([] { static_cast<void>(keep::every_steps(0)); },
              Fails(Errc::invalid_argument, HasSubstr("'every_steps'")));
  EXPECT_THAT([] { static_cast<void>(keep::steps_apart(0)); },
              Fails(Errc::invalid_argument, HasSubstr("'steps_apart'")));
  EXPECT_THAT([] { static_cast<void>(keep::nearest_to_every(0)); },
              Fails(Errc::invalid_argument, HasSubstr("'nearest_to_every'")));
  for (const int below : {0, -5}) {
    EXPECT_THAT([&] { static_cast<void>(keep::time_apart(seconds(below))); },
                Fails(Errc::invalid_argument, HasSubstr("'time_apart'")));
    EXPECT_THAT([&] { static_cast<void>(keep::younger_than(seconds(below))); },
                Fails(Errc::invalid_argument, HasSubstr("'younger_than'")));
  }
}

TEST(KeepPolicy, ThatAnswersForOtherStepsIsNamed) {
  const KeepPolicy policy("mine", false,
                          [](std::span<const StepInfo>, CommitTime) { return std::vector<bool>{true}; });

  EXPECT_THAT(
      [&] {
        kept(policy, step_infos({1, 2}));
      },
      Fails(Errc::invalid_argument, AllOf(HasSubstr("'mine'"), HasSubstr("1"), HasSubstr("2"))));
  EXPECT_THAT(
      [&] {
        kept(keep::any_of({keep::latest(1), policy}), step_infos({1, 2}));
      },
      Fails(Errc::invalid_argument, HasSubstr("'mine'")));
}

TEST(KeepPolicy, ThatThrowsIsNamed) {
  const KeepPolicy policy("mine", false, [](std::span<const StepInfo>, CommitTime) -> std::vector<bool> {
    throw std::runtime_error("no idea");
  });

  EXPECT_THAT([&] { kept(policy, step_infos({1})); },
              Fails(Errc::handler_failed, AllOf(HasSubstr("'mine'"), HasSubstr("no idea"))));
}

TEST(KeepPolicy, OnlyThoseOfTimesAndMetricsReadManifests) {
  EXPECT_FALSE(keep::any_of({keep::all(), keep::latest(1), keep::every_steps(1), keep::steps_apart(1),
                             keep::nearest_to_every(1), keep::at_steps({})})
                   .reads_manifests());
  EXPECT_TRUE(keep::time_apart(seconds(1)).reads_manifests());
  EXPECT_TRUE(keep::younger_than(seconds(1)).reads_manifests());
  EXPECT_TRUE(keep::any_of({keep::all(), keep::best("loss", 1, Prefer::lower)}).reads_manifests());
}

}  // namespace
}  // namespace cairn
