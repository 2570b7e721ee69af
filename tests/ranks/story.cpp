// SPDX-License-Identifier: Apache-2.0
#include "ranks/story.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "support/dice.hpp"
#include "support/sanitizer.hpp"

namespace cairn::ranks {
namespace {

using namespace std::chrono_literals;

/// After how much silence a rank counts as lost. Programs that run beside this one must not keep a rank's thread from
/// its turn for as long, and sanitized programs take turns slowly.
constexpr testing::Duration kSilence = testing::kHasSanitizer ? 5s : 1500ms;

/// Half of the steps are waited for; what is odd is one rank's.
Step make_step(testing::Dice& dice, std::size_t ranks) {
  Step step;
  step.target = dice.one_in(4) ? 1 : 0;
  step.overwrites = !dice.one_in(6);
  step.fails_by_handler = dice.one_in(12);
  step.odd_rank = dice.below(ranks);
  step.manner = dice.one_in(2) ? Manner::waits : static_cast<Manner>(dice.below(kManners));
  step.pause = dice.one_in(4) ? dice.up_to(30ms) : testing::Duration::zero();
  step.moment = dice.up_to(60ms);
  if (dice.one_in(4)) {
    step.contradiction = static_cast<Contradiction>(dice.below(kContradictions));
  }
  if (dice.one_in(16)) {
    step.manner = Manner::waits;
    step.is_late = true;
  }
  return step;
}

testing::Disturbances make_disturbances(testing::Dice& dice) {
  constexpr std::array<std::size_t, 4> kSlow = {0, 100, 30, 10};
  constexpr std::array<std::size_t, 4> kFailing = {0, 1000, 300, 100};
  testing::Disturbances disturbances;
  disturbances.slow = dice.pick(kSlow);
  disturbances.focus = dice.one_in(2) ? testing::Focus::commit : testing::Focus::all;
  disturbances.failing = dice.pick(kFailing);
  disturbances.lost_answers = dice.one_in(3) ? 5 : 0;
  disturbances.odd = dice.one_in(2) ? 20 : 0;
  disturbances.longest = 120ms;
  return disturbances;
}

}  // namespace

Story::Story(std::uint64_t of) : seed(of) {
  testing::Dice dice(seed);
  ranks = 2 + dice.below(3);
  fan_out = dice.one_in(2) ? 1 : 16;
  grace = dice.one_in(2) ? 40ms : 2000ms;
  saves_in_flight = dice.one_in(3) ? 1 : 8;
  disturbances = make_disturbances(dice);
  const std::size_t count = 4 + dice.below(8);
  for (std::size_t i = 0; i < count; ++i) {
    steps.push_back(make_step(dice, ranks));
  }
  // Long where all are heard: a busy machine must not make a rank seem lost.
  lost_after = 20s;
  if (dice.one_in(3)) {
    lost_after = kSilence;
    const std::size_t step = count - 1 - dice.below(std::min<std::size_t>(count, 3));
    silence = Silence{dice.below(ranks), step, dice.up_to(40ms)};
  }
}

std::string Story::describe() const {
  return fmt::format(
      "{} ranks, fan-out {}, grace {} ms, {} saves in flight; one call in {} slow, in {} failing, one answer "
      "in {} "
      "lost{}",
      ranks, fan_out, grace / 1ms, saves_in_flight, disturbances.slow, disturbances.failing,
      disturbances.lost_answers,
      silence ? fmt::format("; rank {} is silent from save {} on", silence->rank, silence->step + 1) : "");
}

}  // namespace cairn::ranks
