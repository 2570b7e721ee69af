// SPDX-License-Identifier: Apache-2.0
// Lets every call, every request of a ring, every thread and every allocation fail once, and every call be slow; prints one line with
// the counts. With `--all` also where a sample is taken. CAIRN_FAULTS_SEED says where random choices begin.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "faults/matrix.hpp"
#include "faults/scenes.hpp"
#include "support/number_from.hpp"

namespace cairn::faults {
namespace {

constexpr std::uint64_t kSample = 4;
constexpr std::uint64_t kSampleOfSlow = 2;
constexpr bool kHasSanitizer = CAIRN_HAS_SANITIZER != 0;  // A case takes many times as long then.
constexpr std::uint64_t kSampleOfMemory = kHasSanitizer ? 20 : 100;
constexpr std::uint64_t kEvery = std::numeric_limits<std::uint64_t>::max();

bool takes_all = false;
Tally total;

std::uint64_t seed() {
  return testing::number_from("CAIRN_FAULTS_SEED", 1);
}

/// Prints the line when all tests have run.
class Summary final : public ::testing::Environment {
 public:
  void TearDown() override {
    fmt::print(
        "faults: {} cases ({} operations), {} lost, {} mistold, {} leaked, {} hung, {} ended (seed {})\n",
        total.cases, total.operations, total.lost, total.mistold, total.leaked, total.hung, total.ended,
        seed());
  }
};

using Param = std::tuple<SceneMaker, io::EngineKind>;

class FaultMatrix : public ::testing::TestWithParam<Param> {
 protected:
  /// Of the other scenes a sample is taken: much of what they do is the same.
  static bool is_basic() {
    const std::string& name = std::get<0>(GetParam()).name;
    return name == "Save" || name == "Load";
  }

  static Tally tally_of(const std::vector<Way>& ways, std::uint64_t most, Machine machine = {}) {
    const auto& [scene, engine] = GetParam();
    machine.engine = engine;
    const Tally tally = fail_each(*scene.make(), machine, ways, most, seed());
    total.add(tally);
    EXPECT_GT(tally.cases, 0U);
    return tally;
  }
};

TEST_P(FaultMatrix, IsCleanForEveryCall) {
  const Tally tally = tally_of(ways_of_calls(), takes_all || is_basic() ? kEvery : kSample);

  EXPECT_EQ(tally.complaints, std::vector<std::string>());
}

TEST_P(FaultMatrix, IsCleanForAllocations) {
  const bool is_whole = takes_all || (!kHasSanitizer && is_basic());

  const Tally tally = tally_of(ways_of_memory(), is_whole ? kEvery : kSampleOfMemory);

  EXPECT_EQ(tally.complaints, std::vector<std::string>());
}

/// Saves that are stopped while one call is slow: what they are told must be true at once, and when the call has ended.
class SlowCallMatrix : public FaultMatrix {
 protected:
  static Tally tally_with(std::chrono::milliseconds slowness, std::uint64_t most) {
    Machine machine;
    machine.slowness = slowness;
    machine.settle_time += slowness;
    return tally_of(ways_of_slow_calls(), most, machine);
  }
};

TEST_P(SlowCallMatrix, IsCleanForEveryCall) {
  const Tally tally = tally_with(std::chrono::milliseconds(20), takes_all ? kEvery : kSampleOfSlow);

  EXPECT_EQ(tally.complaints, std::vector<std::string>());
}

TEST_P(SlowCallMatrix, IsCleanForCallsOfThreeSeconds) {
  if (!takes_all) {
    GTEST_SKIP() << "takes minutes: --all";
  }
  const Tally tally = tally_with(std::chrono::seconds(3), 1);

  EXPECT_EQ(tally.complaints, std::vector<std::string>());
}

std::string name_of(const ::testing::TestParamInfo<Param>& info) {
  const auto& [scene, engine] = info.param;
  return scene.name + (engine == io::EngineKind::threads ? "OnThreads" : "");
}

INSTANTIATE_TEST_SUITE_P(Of, FaultMatrix,
                         ::testing::Combine(::testing::ValuesIn(all_scenes()),
                                            ::testing::Values(io::EngineKind::automatic,
                                                              io::EngineKind::threads)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Of, SlowCallMatrix,
                         ::testing::Combine(::testing::ValuesIn(save_scenes()),
                                            ::testing::Values(io::EngineKind::automatic,
                                                              io::EngineKind::threads)),
                         name_of);

}  // namespace
}  // namespace cairn::faults

int main(int count, char** arguments) {
  ::testing::InitGoogleTest(&count, arguments);
  cairn::faults::takes_all = std::any_of(arguments, arguments + count,
                                         [](std::string_view argument) { return argument == "--all"; });
  ::testing::AddGlobalTestEnvironment(std::make_unique<cairn::faults::Summary>().release());
  return RUN_ALL_TESTS();
}
