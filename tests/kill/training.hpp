// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "cairn/cairn.hpp"
#include "cairn/training/checkpointer.hpp"

#include "kill/state.hpp"

namespace cairn::kill {

/// What trainees keep, besides what is pinned.
inline constexpr std::size_t kLatest = 3;
inline constexpr std::uint64_t kEvery = 64;

inline KeepPolicy kept_by_trainees() {
  return keep::any_of({keep::latest(kLatest), keep::every_steps(kEvery)});
}

/// What a trainee has at a step: every element tells which one it was.
inline Tree trained(std::uint64_t step) {
  constexpr std::size_t kFew = 30'000;
  return state(static_cast<std::int64_t>(step), kFew);
}

}  // namespace cairn::kill
