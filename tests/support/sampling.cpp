// SPDX-License-Identifier: Apache-2.0
#include "support/sampling.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "cairn/base/hash.hpp"

#include "support/dice.hpp"
#include "support/number_from.hpp"
#include "support/sanitizer.hpp"

namespace cairn::testing {

std::string seed() {
  if (const char* asked = std::getenv("CAIRN_SEED_ASKED")) {
    std::ofstream(asked).put('\n');  // Another seed is another test: see whole_program.
  }
  const char* text = std::getenv("CAIRN_SEED");
  return text == nullptr || *text == '\0' ? "1" : text;
}

std::uint64_t first_number() {
  constexpr std::uint64_t kNumbers = 1'000'000;  // Short enough for a person to type again.
  return takes_all() || std::getenv("CAIRN_SEED") == nullptr ? 1 : 1 + hash_text(seed()).low % kNumbers;
}

std::uint64_t share_of(std::uint64_t most) {
  const std::uint64_t one_in = number_from("CAIRN_ONE_IN", 1);
  return std::max<std::uint64_t>(1, most / std::max<std::uint64_t>(1, one_in));
}

Sample::Sample(std::uint64_t one_in, std::string_view seed)
    : one_in_(seed == kAll ? 1 : one_in), number_(hash_text(seed).low) {}

bool Sample::takes(std::uint64_t index) const {
  return one_in_ <= 1 || index % one_in_ == Dice(number_, index / one_in_).below(one_in_);
}

Sample sample_of_calls() {
  return Sample(kHasSanitizer ? 4 : 3);
}

}  // namespace cairn::testing
