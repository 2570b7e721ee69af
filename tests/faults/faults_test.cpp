// SPDX-License-Identifier: Apache-2.0
// Lets calls, requests of a ring, threads and allocations fail, one at a time, and calls be slow; prints one line with
// the counts. Where a sample is taken CAIRN_SEED says which; `--all`, or CAIRN_SEED=all, takes everything.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "faults/matrix.hpp"
#include "faults/scenes.hpp"
#include "support/sampling.hpp"

namespace cairn::faults {
namespace {

constexpr std::uint64_t kOneCallIn = 2;
constexpr std::uint64_t kMostCalls = 2;  // Of a scene that repeats most of another one.
constexpr std::uint64_t kMostSlowCalls = 1;
constexpr bool kHasSanitizer = CAIRN_HAS_SANITIZER != 0;  // A case takes many times as long then.
constexpr std::uint64_t kMostAllocations = kHasSanitizer ? 20 : 50;
constexpr std::uint64_t kOneAllocationIn = 16;  // Each is a process of its own.

Tally total;

/// Prints the line when all tests have run.
class Summary final : public ::testing::Environment {
 public:
  void TearDown() override {
    fmt::print(
        "faults: {} cases ({} operations), {} lost, {} mistold, {} leaked, {} hung, {} ended (seed {})\n",
        total.cases, total.operations, total.lost, total.mistold, total.leaked, total.hung, total.ended,
        testing::seed());
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

  static Share one_in(std::uint64_t calls) {
    Share share;
    share.one_in = calls;
    share.seed = testing::seed();
    return share;
  }

  static Share about(std::uint64_t calls) {
    Share share = one_in(1);
    share.most = calls;
    return share;
  }

  static Tally tally_of(const std::vector<Way>& ways, const Share& share, Machine machine = {}) {
    const auto& [scene, engine] = GetParam();
    machine.engine = engine;
    const Tally tally = fail_each(*scene.make(), machine, ways, share);
    total.add(tally);
    EXPECT_GT(tally.cases, 0U);
    return tally;
  }
};

TEST_P(FaultMatrix, IsCleanForEveryCall) {
  const Tally tally = tally_of(ways_of_calls(), is_basic() ? one_in(kOneCallIn) : about(kMostCalls));

  EXPECT_EQ(tally.complaints, std::vector<std::string>());
}

TEST_P(FaultMatrix, IsCleanForAllocations) {
  const bool takes_many = !kHasSanitizer && is_basic();

  const Tally tally =
      tally_of(ways_of_memory(), takes_many ? one_in(kOneAllocationIn) : about(kMostAllocations));

  EXPECT_EQ(tally.complaints, std::vector<std::string>());
}

/// Saves that are stopped while one call is slow: what they are told must be true at once, and when the call has ended.
class SlowCallMatrix : public FaultMatrix {
 protected:
  static Tally tally_with(std::chrono::milliseconds slowness, const Share& share) {
    Machine machine;
    machine.slowness = slowness;
    machine.settle_time += slowness;
    return tally_of(ways_of_slow_calls(), share, machine);
  }
};

TEST_P(SlowCallMatrix, IsCleanForEveryCall) {
  const Tally tally = tally_with(std::chrono::milliseconds(20), about(kMostSlowCalls));

  EXPECT_EQ(tally.complaints, std::vector<std::string>());
}

TEST_P(SlowCallMatrix, IsCleanForCallsOfThreeSeconds) {
  if (!testing::takes_all()) {
    GTEST_SKIP() << "takes minutes: --all";
  }
  Share one;
  one.most = 1;

  const Tally tally = tally_with(std::chrono::seconds(3), one);

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
  const auto is_all = [](std::string_view argument) { return argument == "--all"; };
  if (std::any_of(arguments, arguments + count, is_all)) {
    ::setenv("CAIRN_SEED", std::string(cairn::testing::kAll).c_str(), 1);
  }
  ::testing::AddGlobalTestEnvironment(std::make_unique<cairn::faults::Summary>().release());
  return RUN_ALL_TESTS();
}
