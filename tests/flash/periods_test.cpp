// SPDX-License-Identifier: Apache-2.0
// When steps are kept in memory, and on disk: what both levels cost, and how often each is needed.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/flash/flash_checkpointer.hpp"

#include "flash/steps.hpp"
#include "store/internal/program_claim.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"
#include "training/fixture.hpp"

namespace cairn::flash {
namespace {

using namespace std::chrono_literals;
using testing::Fails;
using ::testing::HasSubstr;

class FlashPeriodsOfARun : public testing::TrainingTest {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(testing::kSharedMemory)) {
      GTEST_SKIP() << "no " << testing::kSharedMemory;
    }
    above_ = std::make_unique<testing::TempDir>(testing::kSharedMemory);
    options_.memory = *above_ / "run";
    options_.disk.save = save_when::at_steps({});
  }

  static bool save(FlashCheckpointer& run, std::uint64_t step) {
    const Tree state = state_at(step, 1);
    const FlashResponse response = run.save(step, {{"state", state}});
    response.wait();
    return static_cast<bool>(response);
  }

  /// A program that saves a step and fails.
  void fail_after(std::uint64_t step) {
    try {
      FlashCheckpointer run(root(), options_, *context_);
      save(run, step);
      throw std::runtime_error("the program fails");
    } catch (const std::runtime_error&) {
    }
    clock_->advance(1s);  // Programs are told apart by the second in which they began.
  }

  std::unique_ptr<testing::TempDir> above_;
  FlashOptions options_;
};

TEST_F(FlashPeriodsOfARun, LetThePolicyOfTheMemoryCountFromItsLastSave) {
  options_.to_memory = save_when::continuously(1h);
  FlashCheckpointer run(root(), options_, *context_);

  EXPECT_TRUE(save(run, 1));
  EXPECT_FALSE(save(run, 2));
  clock_->advance(1h);
  EXPECT_TRUE(save(run, 3));
}

TEST_F(FlashPeriodsOfARun, ReportBothLevels) {
  options_.disk.save = save_when::at_steps({1});
  FlashCheckpointer run(root(), options_, *context_);
  save(run, 1);

  const FlashPeriods periods = run.periods(2h, 100h);

  EXPECT_EQ(periods.memory.costs.mtbf, 2h);
  EXPECT_EQ(periods.disk.costs.mtbf, 100h);
  const auto json = nlohmann::json::parse(periods.json());
  EXPECT_EQ(json.at("disk").at("mtbf_seconds"), 360'000);
  EXPECT_EQ(json.at("expected_loss_ratio"), periods.expected_loss());
  EXPECT_THAT(periods.prometheus_text(), HasSubstr("\n# TYPE cairn_flash_disk_goodput_ratio gauge\n"));
  EXPECT_THAT([&] { static_cast<void>(run.periods(0s, 1h)); },
              Fails(Errc::invalid_argument, HasSubstr("0 s")));
}

TEST_F(FlashPeriodsOfARun, CountFailuresForTheMemoryAndItsLossesForTheDisk) {
  options_.to_memory = save_when::any_of({save_when::asked(), save_when::automatic()});
  fail_after(1);
  fail_after(2);
  std::filesystem::remove_all(options_.memory);
  FlashCheckpointer run(root(), options_, *context_);

  const FailureHistory history = run.disk().failures();
  EXPECT_EQ(history.programs, 3u);
  EXPECT_EQ(history.failures, 2u);
  EXPECT_EQ(history.losses, 1u);
  EXPECT_EQ(run.periods().memory.costs.mtbf, 8h);
  EXPECT_EQ(run.periods().disk.costs.mtbf, 12h);
}

TEST_F(FlashPeriodsOfARun, GoByWhatThePoliciesWereGiven) {
  options_.to_memory =
      save_when::any_of({save_when::automatic(7h), save_when::automatic(5h), save_when::asked()});
  options_.disk.save = save_when::automatic();
  fail_after(1);
  FlashCheckpointer run(root(), options_, *context_);

  EXPECT_EQ(run.periods().memory.costs.mtbf, 5h);
  EXPECT_EQ(run.periods().memory.mtbf_from, "policy");
  EXPECT_EQ(run.periods().disk.mtbf_from, "history");
  EXPECT_EQ(run.periods(2h, 3h).memory.mtbf_from, "caller");
  const auto json = nlohmann::json::parse(run.periods().json());
  EXPECT_EQ(json.at("memory").at("mtbf_from"), "policy");
}

TEST_F(FlashPeriodsOfARun, GoByWhatThePolicyOfTheDiskWasGivenAlsoWhereTheMemoryNeedsTheHistory) {
  options_.to_memory = save_when::automatic();
  options_.disk.save = save_when::automatic(100h);
  FlashCheckpointer run(root(), options_, *context_);

  EXPECT_EQ(run.periods().disk.costs.mtbf, 100h);
  EXPECT_EQ(run.periods().memory.costs.mtbf, 24h);
}

TEST_F(FlashPeriodsOfARun, AProgramThatAnExceptionEndsHasNotEndedInOrder) {
  fail_after(1);

  const auto rank = io::Directory::open(io::posix_syscalls(), options_.memory / "r00000");
  const store::ClaimLook look = store::look_at_claim(rank);
  ASSERT_TRUE(look.record);
  EXPECT_TRUE(look.is_free);
  EXPECT_FALSE(look.record->has_ended);
}

TEST(MtbfOf, IsThatOfAllMachines) {
  EXPECT_NEAR(std::chrono::duration<double>(mtbf_of(0.01, 1h, 64)).count(), 5597,
              1);  // 3600 / (64 * 0.01005)
  EXPECT_NEAR(std::chrono::duration<double>(mtbf_of(1e-6, 1s)).count(), 1e6, 1);
  for (const double probability : {0.0, 1.0, -0.5, std::nan("")}) {
    EXPECT_THAT([&] { static_cast<void>(mtbf_of(probability, 1h)); },
                Fails(Errc::invalid_argument, HasSubstr("probability")));
  }
  EXPECT_THAT([] { static_cast<void>(mtbf_of(0.5, 1h, 0)); },
              Fails(Errc::invalid_argument, HasSubstr("0 machines")));
}

}  // namespace
}  // namespace cairn::flash
