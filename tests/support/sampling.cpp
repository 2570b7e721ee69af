// SPDX-License-Identifier: Apache-2.0
#include "support/sampling.hpp"

#include <cstdlib>

#include "cairn/base/hash.hpp"

#include "support/dice.hpp"
#include "support/sanitizer.hpp"

namespace cairn::testing {

std::string seed() {
  const char* text = std::getenv("CAIRN_SEED");
  return text == nullptr || *text == '\0' ? "1" : text;
}

Sample::Sample(std::uint64_t one_in, std::string_view seed)
    : one_in_(seed == kAll ? 1 : one_in), number_(hash_text(seed).low) {}

bool Sample::takes(std::uint64_t index) const {
  return one_in_ <= 1 || index % one_in_ == Dice(number_, index / one_in_).below(one_in_);
}

Sample sample_for_sanitizers() {
  return Sample(kHasSanitizer ? 4 : 1);
}

}  // namespace cairn::testing
