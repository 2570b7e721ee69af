// SPDX-License-Identifier: Apache-2.0
// The tests of steps in memory find what breaks them: each of these mutants does, in one way.
#include "verdicts/mutants.hpp"

#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <string>

#include <gmock/gmock.h>

#include "support/process.hpp"

namespace cairn::flash {
namespace {

using verdicts::all_mutants;
using verdicts::Mutant;

/// Runs the tests with a mutant until one fails. Returns which that is, or was running when they crashed; empty: none.
std::string failed_with(std::size_t number) {
  ::setenv("CAIRN_MUTANT", std::to_string(number).c_str(), 1);
  testing::Process tests(CAIRN_FLASH_MUTATED, {"--gtest_fail_fast"});
  std::string last = "none";
  bool has_ended = false;
  for (const std::string& line : tests.finish()) {
    if (line.starts_with("[  FAILED  ] ")) {
      return line.substr(line.find("] ") + 2);
    }
    last = line.starts_with("[ RUN      ] ") ? line.substr(line.find("] ") + 2) : last;
    has_ended = has_ended || line.starts_with("[  PASSED  ]");
  }
  return has_ended ? "" : last;
}

TEST(FlashWithoutMutant, PassesItsTests) {
  EXPECT_EQ(failed_with(0), "");
}

class FlashMutants : public ::testing::TestWithParam<std::size_t> {};

TEST_P(FlashMutants, AreCaught) {
  const Mutant& mutant = all_mutants().at(GetParam() - 1);
  ASSERT_FALSE(mutant.is_stale) << mutant.source << " has changed: give " << mutant.name << " its new place";

  const std::string test = failed_with(GetParam());

  EXPECT_NE(test, "") << mutant.why;
  std::cout << "flash: " << mutant.name << " is caught by " << test << std::endl;
}

INSTANTIATE_TEST_SUITE_P(All, FlashMutants, ::testing::Range<std::size_t>(1, all_mutants().size() + 1),
                         [](const auto& chosen) { return all_mutants().at(chosen.param - 1).name; });

}  // namespace
}  // namespace cairn::flash
