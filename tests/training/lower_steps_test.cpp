// SPDX-License-Identifier: Apache-2.0 A step is saved below others: it is refused where the policy of what to keep
// would soon remove it, as the program has gone back.
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/training/step_options.hpp"

#include "training/rewinds.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::Not;

/// Says whether it was looked at.
struct Watched {
  static constexpr bool kIsSavedOnly = true;

  Awaitable<Background<>> save(SaveContext context) const {
    *is_seen = true;
    co_return context.write_file("seen", std::string("seen"));
  }

  bool* is_seen = nullptr;
};

class LowerSteps : public testing::Rewinds<testing::Checkpointers> {
 protected:
  /// As a training leaves it that keeps the latest three.
  LowerSteps() { save_steps({800, 900, 1000}); }

  void expect_refused(Checkpointer& run, std::uint64_t step, const StepOptions& options = {}) const {
    EXPECT_THAT([&] { save(run, step, options); },
                Fails(Errc::invalid_argument, HasSubstr("step " + std::to_string(step) + " of")));
    EXPECT_FALSE(fs::exists(root() / std::to_string(step)));
  }
  bool is_saved(Checkpointer& run, std::uint64_t step, const StepOptions& options = {}) const {
    save(run, step, options).wait();
    run.wait();
    return fs::exists(root() / std::to_string(step));
  }
};

TEST_F(LowerSteps, ThatTheNextOneWouldRemoveAreRefusedBeforeAnythingIsCopied) {
  const auto run = make(keeping(keep::latest(3)));
  const std::vector<std::string> before = testing::list_tree(root());
  bool is_seen = false;
  const Watched value{&is_seen};

  EXPECT_THAT(
      [&] {
        run->save(810, {{"state", value}});
      },
      Fails(Errc::invalid_argument,
            AllOf(HasSubstr("step 810 of"), HasSubstr("'latest(3)' keeps later steps, up to 1000"),
                  HasSubstr("Checkpointer::rewind(800)"), HasSubstr("StepOptions::force"))));

  EXPECT_FALSE(is_seen);
  EXPECT_EQ(testing::list_tree(root()), before);
  run->close();
}

TEST_F(LowerSteps, BelowThoseOfAnotherProgramAreNotToldToSetThemAside) {
  const auto run = make(keeping(keep::latest(3)));
  EXPECT_TRUE(is_saved(*run, 1100));
  save_alone("5000");  // Another program takes turns in the same root.
  save_alone("5010");
  save_alone("5020");
  EXPECT_TRUE(is_saved(*run, 1200, forced()));

  EXPECT_THAT([&] { save(*run, 1300); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("up to 5020, which another program has saved"),
                                                  Not(HasSubstr("rewind")))));

  static_cast<void>(run->resume());  // Now it knows them.
  EXPECT_THAT([&] { save(*run, 1300); }, Fails(Errc::invalid_argument, HasSubstr("Checkpointer::rewind")));
}

TEST_F(LowerSteps, AreSavedOnceTheProgramHasCalledRewind) {
  const auto run = make(keeping(keep::latest(3)));
  run->rewind(1000);  // It knows how to go back, and does not want to.

  EXPECT_TRUE(is_saved(*run, 810));
}

TEST_F(LowerSteps, AreSavedByForceAndDoNotCountThen) {
  const auto run = make(keeping(keep::latest(1)));
  save(*run, 2000, forced()).wait();
  run->wait();
  ASSERT_THAT(run->steps(), ElementsAre(2000));

  EXPECT_TRUE(is_saved(*run, 1900));  // Nothing else is above it.
  expect_refused(*run, 1850);
  EXPECT_TRUE(is_saved(*run, 1850, forced()));
}

TEST_F(LowerSteps, AreSavedWhenTheProgramIsAboutToEnd) {
  const PreemptionGuard guard;
  CheckpointerOptions options = keeping(keep::latest(3));
  options.preemption = &guard;
  const auto run = make(std::move(options));
  expect_refused(*run, 815);
  std::raise(SIGTERM);

  EXPECT_TRUE(is_saved(*run, 815));
}

TEST_F(LowerSteps, ThatAPolicyKeepsAreSaved) {
  EXPECT_TRUE(is_saved(*make(), 808));
  EXPECT_TRUE(is_saved(*make(keeping(keep::any_of({keep::latest(9), keep::every_steps(20)}))), 820));
  EXPECT_TRUE(is_saved(*make(keeping(keep::nearest_to_every(30))), 838));
}

TEST_F(LowerSteps, ThatAreTheBestAreSavedAndOthersAreNot) {
  const auto run = make(keeping(keep::best("loss", 1, Prefer::lower, Unmeasured::drop)));
  save(*run, 1100, Metrics{{"loss", 1.0}}).wait();
  run->wait();

  expect_refused(*run, 1050, Metrics{{"loss", 2.0}});
  EXPECT_TRUE(is_saved(*run, 1050, Metrics{{"loss", 0.5}}));
}

TEST_F(LowerSteps, BelowStepsThatResumeHasPassedOverAreSaved) {
  alter(1000);
  fs::remove(root() / "900" / "COMMIT");
  const auto run = make(keeping(keep::latest(1)));
  ResumeOptions falling_back;
  falling_back.fall_back = true;
  ASSERT_EQ(run->resume({}, falling_back)->step, 800u);

  EXPECT_TRUE(is_saved(*run, 810));
  StepOptions again;
  again.save.overwrite = true;
  EXPECT_TRUE(is_saved(*run, 900, again));
  EXPECT_TRUE(is_saved(*run, 1000, again));
}

TEST_F(LowerSteps, ThatAreKnownToBeDamagedAreSavedAgain) {
  alter(900);
  const auto run = make(keeping(keep::latest(1)));
  EXPECT_ANY_THROW(static_cast<void>(run->load(900)));
  StepOptions again;
  again.save.overwrite = true;

  save(*run, 900, again).wait();

  EXPECT_EQ(stored_step(run->load(900)), 900u);
}

TEST_F(LowerSteps, ArePossibleWhereAPolicyThatFailsRemovesNothing) {
  const auto run = make(keeping(KeepPolicy("mine", false, [](std::span<const StepInfo>, CommitTime) {
    throw std::runtime_error("no idea");
    return std::vector<bool>();
  })));

  save(*run, 810).wait();
  EXPECT_ANY_THROW(run->wait());
  EXPECT_THAT(run->steps(), ElementsAre(800, 810, 900, 1000));
}

TEST_F(LowerSteps, AreSavedOnceAnotherProgramHasSetTheOthersAside) {
  const auto run = make(keeping(keep::latest(3)));
  expect_refused(*run, 810);
  make()->rewind(800);

  EXPECT_TRUE(is_saved(*run, 810));
}

TEST_F(LowerSteps, ThatArePinnedBeforeTheyAreThereStayAndAreSaved) {
  const auto run = make(keeping(keep::latest(1)));
  fs::create_directory(root() / ".cairn-pins");
  testing::write_text(root() / ".cairn-pins" / "810", "");

  EXPECT_TRUE(is_saved(*run, 810));
}

TEST_F(LowerSteps, OnThePlaceOfOneThatIsThereAreRefusedAsAnyThatIsThere) {
  const auto run = make(keeping(keep::latest(1)));

  EXPECT_THAT([&] { save(*run, 900); }, Fails(Errc::already_exists, HasSubstr("step 900 is there")));
}

}  // namespace
}  // namespace cairn
