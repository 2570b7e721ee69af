// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace cairn::verdicts {

/// How many programs a test plays when nobody says otherwise: more than 100,000 acts; fewer where a sanitizer watches.
inline constexpr std::uint64_t kProgramsInCi = CAIRN_VERDICTS_PROGRAMS_IN_CI;

/// What came of some programs.
struct Figures {
  Figures() = default;

  std::uint64_t programs = 0;
  std::uint64_t first_seed = 0;
  std::uint64_t acts = 0;
  std::uint64_t slow_calls = 0;
  std::uint64_t failures = 0;
  std::uint64_t lies = 0;
  std::uint64_t touches = 0;
  std::map<std::string, std::uint64_t> counts;
  std::map<std::string, std::uint64_t> kinds;  ///< Of lies.
  std::string first_story;                     ///< Of the first program with a lie.

  /// A line of figures, after those that it sums up.
  [[nodiscard]] std::string describe() const;
};

/// Plays `count` programs, whose seeds begin with `first_seed`. A program that hangs ends the process with its story.
[[nodiscard]] Figures play_programs(std::uint64_t first_seed, std::uint64_t count);

}  // namespace cairn::verdicts
