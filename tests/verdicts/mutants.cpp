// SPDX-License-Identifier: Apache-2.0
#include "verdicts/mutants.hpp"

namespace cairn::verdicts {

const std::vector<Mutant>& all_mutants() {
  static const std::vector<Mutant> mutants = {
#include "mutants.inc"
  };
  return mutants;
}

}  // namespace cairn::verdicts
