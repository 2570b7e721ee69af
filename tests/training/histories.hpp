// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cairn/training/step_directory.hpp"

#include "support/dice.hpp"

namespace cairn::testing {

/// A step as its manifest would tell.
inline StepInfo step_info(std::uint64_t step, std::chrono::seconds committed = {}, Metrics metrics = {}) {
  StepInfo info;
  info.step = step;
  info.path = std::to_string(step);
  info.committed = CommitTime(committed);
  info.metrics = std::move(metrics);
  return info;
}

inline std::vector<StepInfo> step_infos(const std::vector<std::uint64_t>& steps) {
  std::vector<StepInfo> infos;
  for (const std::uint64_t step : steps) {
    infos.push_back(step_info(step, std::chrono::seconds(step)));
  }
  return infos;
}

/// As many as the directory of a long training holds.
inline constexpr std::size_t kThousands = 4000;

/// Steps as a long training leaves them, `most` at most: some missing, some without a time or metrics, equal times,
/// clocks that were set back.
inline std::vector<StepInfo> random_steps(Dice& dice, std::size_t most) {
  const std::uint64_t range = dice.one_in(4) ? std::numeric_limits<std::uint64_t>::max() : 5 * most + 1;
  std::set<std::uint64_t> numbers;
  for (std::size_t i = most == 0 ? 0 : dice.below(most); i-- > 0;) {
    numbers.insert(dice.next() % range);
  }
  std::vector<StepInfo> steps;
  std::int64_t time = 1000;
  for (const std::uint64_t number : numbers) {
    time += static_cast<std::int64_t>(dice.below(8));
    time -= dice.one_in(10) ? static_cast<std::int64_t>(dice.below(100)) : 0;
    steps.push_back(step_info(number, std::chrono::seconds(time)));
    if (dice.one_in(15)) {
      steps.back().committed.reset();
    }
    if (!dice.one_in(4)) {
      const bool is_nan = dice.one_in(10);
      steps.back().metrics["loss"] =
          is_nan ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(dice.below(10)) - 5;
    }
    steps.back().is_pinned = dice.one_in(20);
  }
  return steps;
}

inline std::vector<StepInfo> random_steps(Dice& dice) {
  const std::size_t most = dice.one_in(20) ? 300 : dice.one_in(4) ? 0 : 30;
  return random_steps(dice, most);
}

}  // namespace cairn::testing
