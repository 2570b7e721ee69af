// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "crash/crash_enumerator.hpp"
#include "crash/simulated_machine.hpp"

namespace cairn::crash {

/// A protocol that is broken on purpose: an enumeration that does not notice is too weak.
struct Mutant {
  std::string name;
  std::string scene;
  std::function<std::unique_ptr<Saboteur>()> sabotage;
  bool is_recovery = false;  ///< What is broken is the recovery after the scene, not the scene.
  /// Why no power cut can tell it from the protocol; empty for all but a few.
  std::string equivalence = {};
};

[[nodiscard]] const std::vector<Mutant>& all_mutants();

/// Looks for a state that shows the break; stops at the first.
[[nodiscard]] EnumerationReport enumerate(const Mutant& mutant, std::uint64_t seed = 1);

}  // namespace cairn::crash
