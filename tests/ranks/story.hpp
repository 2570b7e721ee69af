// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/slow_calls.hpp"

namespace cairn::ranks {

/// What a rank does with a save beyond calling it.
enum class Manner : std::uint8_t {
  waits,
  goes_on,  ///< And waits at the end.
  cancels,  ///< After a while.
  hurries,  ///< With a deadline that the disk may not keep.
  forgets,  ///< Drops the response.
  loads,    ///< Looks at the target meanwhile, then waits.
};

inline constexpr std::size_t kManners = 6;

/// In what one rank contradicts the others.
enum class Contradiction : std::uint8_t {
  none,
  value,      ///< That is not sharded: rank 0's is saved.
  overwrite,  ///< What follows is refused.
  name,
  path,
  shape,
  dtype,
};

inline constexpr std::size_t kContradictions = 7;

/// A save of all ranks.
struct Step {
  std::size_t target = 0;
  bool overwrites = true;
  bool fails_by_handler = false;  ///< On one rank.
  std::size_t odd_rank = 0;       ///< Which one does something else than to wait.
  Manner manner = Manner::waits;
  testing::Duration pause{0};                         ///< Of the odd rank, before its call.
  testing::Duration moment{0};                        ///< When it cancels, or its deadline.
  Contradiction contradiction = Contradiction::none;  ///< Of the odd rank.
  /// The odd rank calls when all others have been told that their deadlines have passed.
  bool is_late = false;
};

/// A rank that is not heard any more.
struct Silence {
  std::size_t rank = 0;
  std::size_t step = 0;         ///< While it is saved.
  testing::Duration moment{0};  ///< Since that rank's call.
};

/// What one job does, and the world that it does it in. All of it follows from the seed.
struct Story {
  explicit Story(std::uint64_t seed);

  /// Its world, in words.
  [[nodiscard]] std::string describe() const;

  std::uint64_t seed;
  std::size_t ranks = 2;
  std::size_t fan_out = 16;
  testing::Duration lost_after{0};
  testing::Duration grace{0};
  std::size_t saves_in_flight = 0;
  testing::Disturbances disturbances;
  std::vector<Step> steps;
  std::optional<Silence> silence;
};

inline constexpr std::size_t kTargets = 2;

/// The deadline of those who wait for one that is late: many heartbeats, in which they hear whom all wait for.
inline constexpr testing::Duration kPatienceWithLate = std::chrono::milliseconds(2000);

}  // namespace cairn::ranks
