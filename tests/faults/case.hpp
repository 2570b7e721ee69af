// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "faults/injector.hpp"
#include "faults/scenes.hpp"

namespace cairn::faults {

/// What came of one run of an operation.
struct Case {
  Verdict verdict;
  std::string leak;  ///< Descriptors, threads, memory, frames that were not given back.
  bool is_hung = false;
  std::string breakdown;          ///< How its process ended: by a signal, with an exit that nobody meant.
  std::uint64_t hits = 0;         ///< How many calls have failed.
  std::size_t refused_bytes = 0;  ///< Of the memory that was refused.
};

/// Prepares the scene and runs its operation, with `fault` or with none.
[[nodiscard]] Case run_case(Scene& scene, const Machine& machine, const Fault* fault);

/// The same in a child process, for faults that may end it. What it leaves on disk is there for the parent to judge;
/// of a case that leaks, a second run counts: threads of Asio's keep some memory to use it again.
[[nodiscard]] Case run_case_in_child(Scene& scene, const Machine& machine, const Fault& fault);

}  // namespace cairn::faults
