// SPDX-License-Identifier: Apache-2.0
// Plays programs on a mutant of the library until one of them lies: mutant_player NUMBER FIRST_SEED PROGRAMS.
// CAIRN_VERDICTS_TO_THE_END: 1: plays all of them, and prints what it has counted.
#include <cstdint>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "support/number_from.hpp"
#include "verdicts/campaign.hpp"
#include "verdicts/mutants.hpp"

int cairn_mutant = 0;

int main(int count, char** arguments) {
  if (count != 4) {
    fmt::print(stderr, "usage: {} NUMBER FIRST_SEED PROGRAMS\n", arguments[0]);
    return 2;
  }
  cairn_mutant = std::atoi(arguments[1]);
  const std::uint64_t first = std::strtoull(arguments[2], nullptr, 10);
  const std::uint64_t programs = std::strtoull(arguments[3], nullptr, 10);
  if (cairn::testing::number_from("CAIRN_VERDICTS_TO_THE_END", 0) != 0) {
    fmt::print("{}", cairn::verdicts::play_programs(first, programs).describe());
    return 0;
  }
  for (std::uint64_t seed = first; seed < first + programs; ++seed) {
    const auto figures = cairn::verdicts::play_programs(seed, 1);
    if (figures.lies + figures.touches != 0) {
      fmt::print("{}caught: seed {}\n", figures.first_story, seed);
      return 1;
    }
  }
  fmt::print("survived: {} programs\n", programs);
  return 0;
}
