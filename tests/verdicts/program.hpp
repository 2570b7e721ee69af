// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/core/context.hpp"

#include "verdicts/slow_calls.hpp"

namespace cairn::verdicts {

/// What a program may do next. An act that finds nothing to work on (no open save, say) does something simple instead.
enum class Act : std::uint8_t {
  save,
  save_async,
  save_accepted,
  save_borrowed,
  save_shared,
  save_moved,
  save_coalescing,
  save_slothful,  ///< With a handler whose background phase is slow, or heeds nothing.
  wait_save,
  wait_save_a_while,
  cancel_save,
  cancel_waiting,  ///< While somebody waits for it.
  wait_for_event,  ///< Until a save is released, or done.
  drop_save,
  move_save,  ///< Into another object, or over a save that is under way.
  load,
  load_into,  ///< Into memory of the caller's.
  load_async,
  load_async_into,
  wait_load,
  wait_load_a_while,
  cancel_load,
  drop_load,
  describe,
  remove,
  together,  ///< Several threads save, load, remove and clean at the same time.
  maintain,  ///< Recovery, verification, metadata.
  rest,
  look,
  look_for_remains,  ///< A dry run of recovery.
  close,             ///< And go on with another context.
  close_meanwhile,   ///< While a save blocks.
  await_staged,      ///< In a coroutine, with a timer beside it.
  await_committed,
  await_loaded,
  await_frame,  ///< A coroutine that owns all of it, cancelled by a timer.
  lose_frame,   ///< The same, in an io_context that is stopped and destroyed.
};

inline constexpr std::size_t kActs = 37;

[[nodiscard]] std::string_view name(Act act) noexcept;

/// What a program is bent on.
enum class Theme : std::uint8_t {
  mixed,
  memory,  ///< Memory of the caller's in slow transfers, given back early.
  order,   ///< One target, slow commits, and saves that are given up meanwhile.
};

/// A random program: what it does, and the world that it does it in. All of it follows from the seed.
struct Program {
  explicit Program(std::uint64_t seed);

  /// How many elements the array of a target has.
  [[nodiscard]] std::size_t element_count(std::size_t target) const;
  /// A target that it works on often.
  [[nodiscard]] std::size_t favourite() const { return theme == Theme::memory ? 3 : 0; }
  /// Its world, in words.
  [[nodiscard]] std::string describe() const;

  std::uint64_t seed;
  bool is_manual = true;  ///< Whether it lives by a clock of its own.
  io::EngineKind engine = io::EngineKind::threads;
  Theme theme = Theme::mixed;
  bool is_large = false;  ///< Whether one target is large enough to be moved without a copy.
  std::size_t saves_in_flight = 0;
  std::size_t worker_threads = 2;
  std::size_t staging_bytes = 0;
  Duration close_timeout{0};
  Duration grace{0};
  Disturbances disturbances;
  std::vector<Act> acts;
};

/// The longest time that a program asks for: a deadline, a rest, a slow call. In real time a thousandth of a second
/// stands for a second.
[[nodiscard]] Duration longest(const Program& program);

}  // namespace cairn::verdicts
