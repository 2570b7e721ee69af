// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace cairn::ranks {

/// Of several jobs together.
struct Figures {
  std::map<std::string, std::uint64_t> ends;  ///< How often ranks were told so.
  std::uint64_t saves = 0;
  std::uint64_t failures = 0;
  std::uint64_t slow_calls = 0;
  std::uint64_t lies = 0;  ///< Jobs with one.
  std::string first_lie;   ///< With the story of its job.
};

/// Plays the jobs with these seeds, some at a time: most of a job's time is waited. CAIRN_RANKS_STORY=1: tells what
/// happens.
[[nodiscard]] Figures play_jobs(std::span<const std::uint64_t> seeds, std::size_t at_once);

}  // namespace cairn::ranks
