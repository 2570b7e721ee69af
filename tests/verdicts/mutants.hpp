// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

/// The number of the mutant that is switched on, from 1; 0: none. The mutated sources look at it.
extern int cairn_mutant;

namespace cairn::verdicts {

/// The library, broken on purpose in one place.
struct Mutant {
  std::string name;
  std::string source;
  std::string why;
  bool is_stale = false;  ///< Its place is not in the source any more.
};

/// In the order of their numbers.
[[nodiscard]] const std::vector<Mutant>& all_mutants();

}  // namespace cairn::verdicts
