// SPDX-License-Identifier: Apache-2.0
#include "cairn/training/checkpointer.hpp"

#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <exception>
#include <filesystem>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/training/step_options.hpp"

#include "async/internal/event.hpp"
#include "support/forwarding_syscalls.hpp"
#include "training/fixture.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using ::testing::AllOf;
using testing::Checkpointers;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// Saving.

TEST_F(Checkpointers, SaveTheStepsThatThePolicyNames) {
  const auto run = make(when(save_when::every_steps(3)));
  std::vector<bool> is_saved;
  for (std::uint64_t step = 0; step < 5; ++step) {
    is_saved.push_back(static_cast<bool>(save(*run, step)));
  }
  run->close();

  EXPECT_THAT(is_saved, ElementsAre(true, false, false, true, false));
  EXPECT_THAT(run->steps(), ElementsAre(0, 3));
  EXPECT_EQ(stored_step(run->load(3)), 3u);
}

TEST_F(Checkpointers, AnEmptyResponseIsDone) {
  const auto run = make(when(save_when::at_steps({})));

  const StepResponse response = save(*run, 1);

  EXPECT_FALSE(response);
  EXPECT_TRUE(response.is_done());
  EXPECT_TRUE(response.is_staged());
  EXPECT_NO_THROW(response.wait_staged());
  EXPECT_EQ(response.wait().bytes, 0u);
}

TEST_F(Checkpointers, ForceSavesWhateverThePolicySays) {
  const auto run = make(when(save_when::at_steps({})));
  StepOptions options;
  options.force = true;

  EXPECT_FALSE(run->should_save(1));
  EXPECT_TRUE(save(*run, 1, options));
  run->close();
  EXPECT_THAT(run->steps(), ElementsAre(1));
}

TEST_F(Checkpointers, KeepMetricsThatAreReadWithoutAnyHandler) {
  const auto run = make();
  StepOptions options(Metrics{{"loss", 0.25}});
  options.save.custom_metadata = R"({"mine": 1})";
  options.save.annotations = R"({"other": 2})";
  save(*run, 1, options).wait();

  EXPECT_THAT(run->info(1).metrics, ElementsAre(Pair("loss", 0.25)));
  EXPECT_EQ(run->metadata(1).custom_metadata, R"({"mine":1})");
  EXPECT_EQ(run->metadata(1).annotations,
            R"({"cairn.training":{"step":1,"metrics":{"loss":0.25}},"other":2})");
}

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

TEST_F(Checkpointers, AStepWhoseMetricIsNoNumberIsSavedAndIsNeverTheBest) {
  CheckpointerOptions options = keeping(keep::best("loss", 1, Prefer::lower, Unmeasured::drop));
  options.links.best_metric = "loss";
  const auto run = make(std::move(options));
  save(*run, 1, Metrics{{"loss", -std::numeric_limits<double>::infinity()}}).wait();
  run->wait();
  EXPECT_FALSE(fs::exists(root() / "best"));
  EXPECT_THAT([&] { static_cast<void>(run->best("loss", Prefer::lower)); },
              Fails(Errc::not_found, HasSubstr("finite")));
  EXPECT_THAT([&] { static_cast<void>(run->info(WhichStep::best("loss", Prefer::lower))); },
              Fails(Errc::not_found));
  save(*run, 2, Metrics{{"loss", 2.0}}).wait();
  save(*run, 3, Metrics{{"loss", 3.0}}).wait();
  save(*run, 4, Metrics{{"loss", kNoNumber}}).wait();
  run->close();

  EXPECT_THAT(run->steps(), ElementsAre(2, 4));
  EXPECT_TRUE(std::isnan(run->info(4).metrics.at("loss")));
  EXPECT_EQ(run->best("loss", Prefer::lower), 2u);
  EXPECT_EQ(fs::read_symlink(root() / "best"), "2");
}

TEST_F(Checkpointers, TellOnceOfEachMetricThatIsNoNumberAlsoOfStepsThatAreDeclined) {
  const auto run = make(when(save_when::every_steps(10)));
  EXPECT_THAT(save(*run, 0, Metrics{{"loss", 1}}).wait().problems, IsEmpty());
  save(*run, 3, Metrics{{"loss", kNoNumber}});
  save(*run, 4, Metrics{{"loss", kNoNumber}, {"norm", std::numeric_limits<double>::infinity()}});
  EXPECT_ANY_THROW(save_unsavable(*run, 10).wait());  // Nobody reads the result of a save that has failed.

  EXPECT_THAT(save(*run, 20, Metrics{{"loss", kNoNumber}}).wait().problems,
              ElementsAre(AllOf(HasSubstr("'loss' is nan"), HasSubstr("step 3")),
                          AllOf(HasSubstr("'norm' is inf"), HasSubstr("step 4"))));
  EXPECT_THAT(save(*run, 30, Metrics{{"loss", kNoNumber}}).wait().problems, IsEmpty());
}

TEST_F(Checkpointers, AMetricWhoseNameIsNoTextIsRefusedWithItsStepAndNothingIsSaved) {
  const auto run = make();

  EXPECT_THAT(
      [&] {
        save(*run, 5, Metrics{{"", 1.0}});
      },
      Fails(Errc::invalid_argument, AllOf(HasSubstr("step 5"), HasSubstr("metric ''"))));
  EXPECT_FALSE(fs::exists(root()));
}

TEST_F(Checkpointers, AStepThatIsThereIsRefusedUnlessItIsToBeOverwritten) {
  const auto run = make();
  save(*run, 1).wait();

  EXPECT_THAT([&] { save(*run, 1); },
              Fails(Errc::already_exists, AllOf(HasSubstr("step 1"), HasSubstr("run/1"))));
  StepOptions options(Metrics{{"loss", 1}});
  options.save.overwrite = true;
  save(*run, 1, options).wait();
  EXPECT_THAT(run->info(1).metrics, ElementsAre(Pair("loss", 1)));
}

/// Goes back where it was.
class CurrentDirectory {
 public:
  explicit CurrentDirectory(const fs::path& path) { fs::current_path(path); }
  ~CurrentDirectory() { fs::current_path(before_); }
  CurrentDirectory(const CurrentDirectory&) = delete;
  CurrentDirectory& operator=(const CurrentDirectory&) = delete;

 private:
  const fs::path before_ = fs::current_path();
};

TEST_F(Checkpointers, StayInTheirDirectoryWhereverTheProgramGoes) {
  const CurrentDirectory here(directory_.path());
  fs::create_directory("elsewhere");
  CheckpointerOptions options = keeping(keep::latest(1));
  options.links.latest = true;
  Checkpointer run("run", options, *context_);
  save(run, 1).wait();
  run.wait();
  fs::current_path("elsewhere");

  save(run, 2).wait();
  run.close();

  EXPECT_EQ(stored_step(run.load(2)), 2u);
  EXPECT_EQ(run.info(2).path, root() / "2");
  EXPECT_FALSE(fs::exists(root() / "1"));
  EXPECT_EQ(fs::read_symlink(root() / "latest"), "2");
  EXPECT_FALSE(fs::exists("run"));
}

TEST_F(Checkpointers, AStepThatIsBeingSavedIsThereForTheNext) {
  const auto run = make();
  save(*run, 1);

  EXPECT_THAT([&] { save(*run, 1); }, Fails(Errc::already_exists, HasSubstr("step 1")));
}

TEST_F(Checkpointers, ALowerStepIsSavedAndIsNotTheLatest) {
  const auto run = make(keeping(keep::latest(1)));
  save(*run, 100).wait();
  save(*run, 50, forced()).wait();
  run->wait();

  EXPECT_THAT(run->steps(), ElementsAre(50, 100));
  EXPECT_EQ(run->latest(), 100u);
  save(*run, 60, forced()).wait();
  run->wait();
  EXPECT_THAT(run->steps(), ElementsAre(60, 100));
}

TEST_F(Checkpointers, AStepAboveTheWidthIsRefused) {
  CheckpointerOptions options;
  options.names.format = StepFormat("s", 2);
  const auto run = make(std::move(options));
  save(*run, 99).wait();

  EXPECT_TRUE(fs::exists(root() / "s99/COMMIT"));
  EXPECT_THAT([&] { save(*run, 100); }, Fails(Errc::invalid_argument, HasSubstr("step 100")));
}

TEST_F(Checkpointers, ThatAreClosedSaveNothing) {
  const auto run = make();
  save(*run, 1);
  run->close();
  run->close();

  EXPECT_THAT([&] { save(*run, 2); }, Fails(Errc::closed, HasSubstr("run")));
  EXPECT_EQ(stored_step(run->load(1)), 1u);
}

TEST_F(Checkpointers, WaitForTheirSaveAtTheirEnd) {
  { save(*make(), 1); }

  EXPECT_TRUE(is_checkpoint(root() / "1", {}, *context_));
}

TEST_F(Checkpointers, AFirstStepIsNotSavedTwice) {
  const auto run = make(when(save_when::first()));

  EXPECT_TRUE(save(*run, 1));
  EXPECT_FALSE(save(*run, 2));
  run->wait();
  EXPECT_FALSE(save(*run, 3));
  EXPECT_FALSE(save(*make(when(save_when::first())), 4));
}

TEST_F(Checkpointers, SaveAgainWhenTheTimeIsUp) {
  const auto run = make(when(save_when::continuously(seconds(10))));
  EXPECT_TRUE(save(*run, 1));
  run->wait();
  clock_->advance(seconds(9));
  EXPECT_FALSE(save(*run, 2));
  clock_->advance(seconds(1));
  EXPECT_TRUE(save(*run, 3));
  run->wait();
}

TEST_F(Checkpointers, CountTheTimeFromTheLastSaveOfAnEarlierProcess) {
  save(*make(), 1).wait();
  clock_->advance(seconds(4));
  const auto run = make(when(save_when::continuously(seconds(10))));

  EXPECT_FALSE(run->should_save(2));
  clock_->advance(seconds(6));
  EXPECT_TRUE(run->should_save(2));
}

TEST_F(Checkpointers, SaveOnceWhenTheyArePreempted) {
  const PreemptionGuard guard({SIGUSR1});
  CheckpointerOptions options = when(save_when::preempted());
  options.preemption = &guard;
  const auto run = make(std::move(options));
  EXPECT_FALSE(save(*run, 1));

  std::raise(SIGUSR1);
  EXPECT_FALSE(run->is_preempted());  // The policy has not been asked.

  EXPECT_TRUE(save(*run, 2));
  EXPECT_TRUE(run->is_preempted());
  EXPECT_FALSE(save(*run, 3));
  run->close();
  EXPECT_THAT(run->steps(), ElementsAre(2));
}

TEST_F(Checkpointers, WhoseSaveFailsAfterASignalSaveAgain) {
  const PreemptionGuard guard({SIGUSR1});
  CheckpointerOptions options = when(save_when::preempted());
  options.preemption = &guard;
  const auto run = make(std::move(options));
  std::raise(SIGUSR1);
  EXPECT_THAT([&] { save_unsavable(*run, 1).wait(); }, Fails(Errc::handler_failed));

  EXPECT_TRUE(save(*run, 2));
  EXPECT_FALSE(save(*run, 3));
  run->close();
  EXPECT_THAT(run->steps(), ElementsAre(2));
}

// Failures.

TEST_F(Checkpointers, AFailureIsThrownOnceByTheNextSaveWhichSavesNothing) {
  const auto run = make();
  save_unsavable(*run, 1);

  EXPECT_THAT([&] { save(*run, 2); },
              Fails(Errc::handler_failed, AllOf(HasSubstr("step 1"), HasSubstr("cannot be saved"))));
  EXPECT_TRUE(save(*run, 3));
  run->close();
  EXPECT_THAT(run->steps(), ElementsAre(3));
}

TEST_F(Checkpointers, AFailureIsThrownOnceByWaitOrClose) {
  const auto run = make();
  save_unsavable(*run, 1);
  EXPECT_THAT([&] { run->wait(); }, Fails(Errc::handler_failed, HasSubstr("step 1")));
  run->wait();
  save_unsavable(*run, 2);
  EXPECT_THAT([&] { run->close(); }, Fails(Errc::handler_failed, HasSubstr("step 2")));
  run->close();
}

TEST_F(Checkpointers, AFailureThatTheResponseToldIsNotThrownAgain) {
  const auto run = make();
  const StepResponse response = save_unsavable(*run, 1);

  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::handler_failed, HasSubstr("cannot be saved")));
  run->close();
  EXPECT_THAT(run->steps(), IsEmpty());
}

TEST_F(Checkpointers, AFailureThatNobodyWasToldIsALineOnStderrAtTheEnd) {
  ::testing::internal::CaptureStderr();

  save_unsavable(*make(), 1);

  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::ContainsRegex("^cairn: step 1: [^\n]*run/1: [^\n]*cannot be saved[^\n]*\n$"));
}

/// A disk that removes nothing.
class KeepsAll final : public testing::ForwardingSyscalls {
 private:
  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    return call.kind == testing::CallKind::unlink ? -EIO : call.make();
  }
};

/// Step 1, over which a save leaves what it has replaced.
class OverwritesThatRemoveNothing : public Checkpointers {
 protected:
  OverwritesThatRemoveNothing() {
    save(*make(), 1).wait();
    ContextOptions over = with_clock(clock_);
    over.syscalls = std::make_shared<KeepsAll>();
    over.on_lost_failure = [this](const std::string& path, const std::exception_ptr& failure) {
      lost_.push_back(path + ": " + describe(failure));
    };
    context_.emplace(std::move(over));
    options_.save.overwrite = true;
  }

  void expect_told_once() {
    context_.reset();
    ASSERT_THAT(lost_, ::testing::SizeIs(1));
    EXPECT_THAT(lost_[0], AllOf(HasSubstr("run/1"), HasSubstr("Input/output error")));
  }

  std::vector<std::string> lost_;
  StepOptions options_;
};

TEST_F(OverwritesThatRemoveNothing, TellTheContextWhereTheirResponseIsDropped) {
  {
    const auto run = make();
    save(*run, 1, options_);
    run->close();
    EXPECT_THAT(save(*make(), 1, options_).wait().problems, ::testing::SizeIs(1));
  }

  expect_told_once();
}

/// Fails in its background phase with the code of a call that is wrong.
struct Refused {
  static constexpr bool kIsSavedOnly = true;

  Awaitable<Background<>> save(SaveContext /*context*/) const { co_return fail(); }

 private:
  static Background<> fail() {
    throw Error(Errc::invalid_argument, "not like this");
    co_return;
  }
};

TEST_F(Checkpointers, AFailureWhoseCodeIsThatOfAWrongCallIsToldOnce) {
  const auto run = make();
  const Refused refused;
  const StepResponse response = run->save(1, {{"state", refused}});

  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::invalid_argument, HasSubstr("not like this")));
  run->wait();
  run->close();
}

/// Its blocking phase waits until it is let go, and then succeeds or fails.
struct Slow {
  async::Event go;
  bool fails = false;

  static constexpr bool kIsSavedOnly = true;

  Awaitable<Background<>> save(SaveContext context) const { return begin(std::move(context), go, fails); }

 private:
  static Awaitable<Background<>> begin(SaveContext context, async::Event go, bool fails) {
    co_await go.wait();
    if (fails) {
      throw std::runtime_error("cannot be staged");
    }
    co_return context.write_file("slow.txt", "slow");
  }
};

StepOptions when_accepted() {
  StepOptions options;
  options.save.return_when_accepted = true;
  return options;
}

TEST_F(OverwritesThatRemoveNothing, TellTheContextAlsoWhereTheNextStepHasADeadline) {
  Slow slow;
  options_.save.return_when_accepted = true;
  StepOptions in_time;
  in_time.save.deadline = std::chrono::minutes(1);
  {
    const auto run = make();
    run->save(1, {{"state", slow}}, options_);
    const std::jthread other([go = slow.go] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // The next step waits by then.
      go.set();
    });
    save(*run, 2, in_time).wait();
    run->close();
  }

  expect_told_once();
}

TEST_F(Checkpointers, WaitStagedWaitsForTheBlockingPhaseOnly) {
  const auto run = make();
  Slow slow;
  const StepResponse response = run->save(1, {{"state", slow}}, when_accepted());

  EXPECT_FALSE(response.is_staged());
  EXPECT_THAT([&] { response.wait_staged(std::chrono::milliseconds(0)); }, Fails(Errc::still_running));
  slow.go.set();
  response.wait_staged();
  response.wait_staged(std::chrono::milliseconds(0));

  EXPECT_TRUE(response.is_staged());
  EXPECT_NO_THROW(response.wait());
  EXPECT_THAT(run->steps(), ElementsAre(1));
}

TEST_F(Checkpointers, AFailureThatWaitStagedToldIsNotThrownAgain) {
  const auto run = make();
  Slow slow;
  slow.fails = true;
  const StepResponse response = run->save(1, {{"state", slow}}, when_accepted());
  slow.go.set();

  EXPECT_THAT([&] { response.wait_staged(); }, Fails(Errc::handler_failed, HasSubstr("cannot be staged")));
  run->close();
  EXPECT_THAT(run->steps(), IsEmpty());
}

TEST_F(Checkpointers, ATimeoutOfWaitStagedTellsOfNoFailure) {
  const auto run = make();
  Slow slow;
  slow.fails = true;
  const StepResponse response = run->save(1, {{"state", slow}}, when_accepted());

  EXPECT_THAT([&] { response.wait_staged(std::chrono::milliseconds(0)); }, Fails(Errc::still_running));
  slow.go.set();

  EXPECT_THAT([&] { run->close(); }, Fails(Errc::handler_failed, HasSubstr("cannot be staged")));
}

TEST_F(Checkpointers, AStepThatFailedCanBeSavedAgain) {
  const auto run = make(when(save_when::first()));
  EXPECT_THAT([&] { save_unsavable(*run, 1).wait(); }, Fails(Errc::handler_failed));

  EXPECT_TRUE(save(*run, 1));
  run->close();
  EXPECT_EQ(stored_step(run->load(1)), 1u);
}

// Loading.

TEST_F(Checkpointers, LoadTheLatestTheBestAndAnyStep) {
  const auto run = make();
  for (std::uint64_t step = 1; step <= 3; ++step) {
    save(*run, step, Metrics{{"loss", step == 2 ? 0.1 : 1.0}}).wait();
  }

  EXPECT_EQ(stored_step(run->load(WhichStep::latest())), 3u);
  EXPECT_EQ(stored_step(run->load(WhichStep::best("loss", Prefer::lower))), 2u);
  EXPECT_EQ(stored_step(run->load_async(1).wait()), 1u);
  EXPECT_EQ(run->best("loss", Prefer::higher), 3u);
  EXPECT_EQ(run->info(WhichStep::latest()).step, 3u);
}

TEST_F(Checkpointers, NameWhatCannotBeLoaded) {
  const auto run = make();
  EXPECT_EQ(run->best("loss", Prefer::lower), std::nullopt);
  EXPECT_THAT([&] { static_cast<void>(run->load(WhichStep::latest())); },
              Fails(Errc::not_found, AllOf(HasSubstr("run"), HasSubstr("no step"))));
  EXPECT_THAT([&] { static_cast<void>(run->load(WhichStep::best("loss", Prefer::lower))); },
              Fails(Errc::not_found, HasSubstr("no step")));
  save(*run, 1, Metrics{{"loss", 1}}).wait();
  EXPECT_THAT([&] { static_cast<void>(run->load(7)); },
              Fails(Errc::not_found, AllOf(HasSubstr("step 7"), HasSubstr("latest of which is 1"))));
  EXPECT_THAT([&] { static_cast<void>(run->load(WhichStep::best("lsos", Prefer::lower))); },
              Fails(Errc::not_found, HasSubstr("'lsos'")));
  EXPECT_THAT([&] { static_cast<void>(run->load(1, {"model"})); },
              Fails(Errc::not_found, HasSubstr("model")));
}

TEST_F(Checkpointers, AStepThatWasRemovedUnderUsIsSaidToBe) {
  const auto run = make();
  save(*run, 1);
  run->wait();  // Also until the directory was listed.
  remove_checkpoint(root() / "1", {}, *context_);

  EXPECT_THAT([&] { static_cast<void>(run->load(1)); },
              Fails(Errc::not_found, AllOf(HasSubstr("step 1"), HasSubstr("removed meanwhile"))));
  run->reload();
  EXPECT_THAT(run->steps(), IsEmpty());
}

}  // namespace
}  // namespace cairn
