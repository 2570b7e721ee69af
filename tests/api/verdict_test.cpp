// SPDX-License-Identifier: Apache-2.0
// What a save says when it gives up stays true, however long the disk takes, and nobody else waits for it.
#include <chrono>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/fixture.hpp"
#include "async/internal/event.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/recovery.hpp"
#include "support/held_syscalls.hpp"
#include "support/manual_clock.hpp"

namespace cairn {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::Held;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class Verdict : public testing::ApiTest {
 protected:
  static ContextOptions held(const std::shared_ptr<testing::HeldSyscalls>& calls,
                             const std::shared_ptr<testing::ManualClock>& clock) {
    ContextOptions options = small();
    options.syscalls = calls;
    options.clock = clock;
    return options;
  }

  explicit Verdict(std::size_t saves_in_flight = 8) : ApiTest(small()) {
    ContextOptions options = held(calls_, clock_);
    options.saves_in_flight = saves_in_flight;
    context_.emplace(std::move(options));
  }

  ~Verdict() override {
    calls_->let_go();
    context_.reset();
  }

  [[nodiscard]] AsyncResponse start(int step, std::chrono::nanoseconds deadline = 0ns,
                                    const std::string& name = "checkpoint") const {
    SaveOptions options;
    options.overwrite = true;
    options.deadline = deadline;
    return save_async(directory_ / name, Tree({{"step", step}}), options, *context_);
  }

  /// Lets the deadline and the grace of `response` pass.
  void give_up(const AsyncResponse& response, std::chrono::nanoseconds deadline) const {
    clock_->advance(deadline);
    while (!is_answered(response)) {
      clock_->advance(context_->options().stop_grace);
      static_cast<void>(async::Event().wait_for(5ms));
    }
  }

  static bool is_answered(const AsyncResponse& response) {
    try {
      response.wait(0ns);
    } catch (const Error& error) {
      return error.code() != Errc::still_running;
    }
    return true;
  }

  /// Nothing tells that something will never happen; a twentieth of a second is long for what is there to be done.
  static bool is_answered_soon(const AsyncResponse& response) {
    static_cast<void>(async::Event().wait_for(50ms));
    return is_answered(response);
  }

  /// Closes the context.
  void wait_until_all_has_ended() {
    for (bool has_ended = false; !has_ended;) {
      try {
        context_->close();
        has_ended = true;
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), Errc::still_running);
        static_cast<void>(async::Event().wait_for(1ms));
      }
    }
  }

  [[nodiscard]] int stored(const std::string& name = "checkpoint") const {
    return static_cast<int>(load(directory_ / name, {}, Context(small())).at("step").as<std::int64_t>());
  }

  const std::shared_ptr<testing::HeldSyscalls> calls_ = std::make_shared<testing::HeldSyscalls>();
  const std::shared_ptr<testing::ManualClock> clock_ = std::make_shared<testing::ManualClock>();
};

TEST_F(Verdict, ASaveThatWasReportedAsFailedNeverAppears) {
  calls_->hold(Held::sync_data);
  const AsyncResponse response = start(1, 1s);
  ASSERT_TRUE(calls_->holds());

  give_up(response, 1s);
  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::timed_out, HasSubstr("still runs")));
  EXPECT_FALSE(response.is_done());
  calls_->let_go();
  response.wait_done();

  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(Verdict, ASaveThatIsStoppedWhileItSealsIsNotPublished) {
  calls_->hold(Held::sync);
  const AsyncResponse response = start(1);
  ASSERT_TRUE(calls_->holds());

  response.cancel();
  give_up(response, 0s);
  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::cancelled));
  calls_->let_go();
  response.wait_done();

  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(Verdict, ALaterSaveIsNotReplacedByOneThatWasGivenUp) {
  start(1).wait();
  calls_->hold(Held::sync, 1);
  const AsyncResponse second = start(2, 1s);
  ASSERT_TRUE(calls_->holds());
  give_up(second, 1s);
  EXPECT_THAT([&] { second.wait(); }, Fails(Errc::timed_out));

  const AsyncResponse third = start(3);
  calls_->let_go();
  third.wait();
  second.wait_done();

  EXPECT_EQ(stored(), 3);
  EXPECT_THAT(left(), Each(Not(StartsWith("."))));
}

TEST_F(Verdict, IsUnknownWhenTheRenameDoesNotAnswer) {
  calls_->hold(Held::rename);
  const AsyncResponse response = start(1, 1s);
  ASSERT_TRUE(calls_->holds());

  give_up(response, 1s);
  EXPECT_THAT([&] { response.wait(); },
              Fails(Errc::commit_unknown, AllOf(HasSubstr("checkpoint"), HasSubstr("may be there or not"))));
  calls_->let_go();
  response.wait_done();

  EXPECT_EQ(stored(), 1);
}

TEST_F(Verdict, NothingOfTheOldCheckpointIsRemovedAfterItWasUnknown) {
  start(1).wait();
  calls_->hold(Held::rename);
  const AsyncResponse response = start(2, 1s);
  ASSERT_TRUE(calls_->holds());
  give_up(response, 1s);
  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::commit_unknown));

  calls_->let_go();
  response.wait_done();

  EXPECT_EQ(stored(), 2);
  EXPECT_THAT(left(), Contains(AllOf(StartsWith(".tmp-"), HasSubstr("COMMIT"))));
}

TEST_F(Verdict, IsASuccessOnceTheCheckpointIsDurable) {
  start(1).wait();
  calls_->hold(Held::unlink);  // What was replaced is being removed.
  const AsyncResponse response = start(2, 1s);
  ASSERT_TRUE(calls_->holds());

  give_up(response, 1s);

  const SaveResult result = response.wait();
  EXPECT_EQ(result.path, target());
  EXPECT_THAT(result.problems, ElementsAre(HasSubstr("may be left to recovery")));
  EXPECT_EQ(stored(), 2);
}

TEST_F(Verdict, OfTwoSavesToOneTargetTheLaterCallWins) {
  calls_->hold(Held::sync_data, 1);
  const AsyncResponse first = start(1);
  ASSERT_TRUE(calls_->holds());
  const AsyncResponse second = start(2);

  EXPECT_FALSE(is_answered_soon(second)) << "published before the earlier call's";
  calls_->let_go();
  first.wait();
  second.wait();

  EXPECT_EQ(stored(), 2);
}

TEST_F(Verdict, OneTargetIsOneWhateverPathLeadsToIt) {
  std::filesystem::create_directory(directory_ / "real");
  std::filesystem::create_directory_symlink(directory_ / "real", directory_ / "link");
  calls_->hold(Held::sync_data, 1);
  const AsyncResponse first = start(1, 0s, "real/c");
  ASSERT_TRUE(calls_->holds());
  const AsyncResponse second = start(2, 0s, "link/c");

  EXPECT_FALSE(is_answered_soon(second));
  calls_->let_go();
  second.wait();

  EXPECT_EQ(stored("real/c"), 2);
}

TEST_F(Verdict, SavesOfTwoContextsToOneTargetAreInOrder) {
  calls_->hold(Held::sync_data, 1);
  const AsyncResponse first = start(1);
  ASSERT_TRUE(calls_->holds());
  const Context other(small());
  SaveOptions options;
  options.overwrite = true;
  const AsyncResponse second = save_async(target(), Tree({{"step", 2}}), options, other);

  EXPECT_FALSE(is_answered_soon(second));
  calls_->let_go();
  second.wait();

  EXPECT_EQ(stored(), 2);
}

TEST_F(Verdict, ASaveThatWaitsForItsTurnKeepsItsDeadline) {
  calls_->hold(Held::sync_data, 1);
  const AsyncResponse first = start(1);
  ASSERT_TRUE(calls_->holds());
  const AsyncResponse second = start(2, 1s);

  give_up(second, 1s);

  EXPECT_THAT([&] { second.wait(); }, Fails(Errc::timed_out));
}

TEST_F(Verdict, MetricsCountASaveThatWasGivenUp) {
  calls_->hold(Held::sync_data);
  const AsyncResponse response = start(1, 1s);
  ASSERT_TRUE(calls_->holds());
  give_up(response, 1s);

  EXPECT_THAT(prometheus_text(*context_), HasSubstr("cairn_saves_given_up_total 1"));
}

TEST_F(Verdict, CloseNamesWhatStillRuns) {
  calls_->hold(Held::sync_data);
  const AsyncResponse response = start(1, 1s);
  ASSERT_TRUE(calls_->holds());
  give_up(response, 1s);
  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::timed_out));

  EXPECT_THAT([&] { context_->close(); },
              Fails(Errc::still_running, HasSubstr("save of " + target().string())));
}

TEST_F(Verdict, RecoveryLeavesASaveAloneThatStillRuns) {
  calls_->hold(Held::sync_data);
  const AsyncResponse response = start(1, 1s);
  ASSERT_TRUE(calls_->holds());
  give_up(response, 1s);

  for (const store::RecoveryEntry& entry : store::recover(io::posix_syscalls(), directory_.path()).entries) {
    EXPECT_FALSE(entry.is_removed) << entry.name;
  }
}

class VerdictOfOne : public Verdict {
 protected:
  VerdictOfOne() : Verdict(1) {}
};

TEST_F(VerdictOfOne, ASaveThatWasGivenUpLeavesItsPlaceToOthers) {
  calls_->hold(Held::sync_data, 1);
  const AsyncResponse first = start(1, 1s);
  ASSERT_TRUE(calls_->holds());
  give_up(first, 1s);

  start(2, 0s, "other").wait();

  EXPECT_EQ(stored("other"), 2);
}

/// What each kind of call keeps waiting when it does not answer.
class OthersGoOn : public Verdict, public ::testing::WithParamInterface<Held> {};

TEST_P(OthersGoOn, WhileTheDiskAnswersNobodyElse) {
  calls_->hold(GetParam(), 3);
  std::vector<AsyncResponse> held;
  for (int i = 0; i < 3; ++i) {
    held.push_back(start(i, 0s, "held" + std::to_string(i)));
    ASSERT_TRUE(calls_->holds(i + 1));
  }

  start(7, 0s, "free").wait();

  EXPECT_EQ(stored("free"), 7);
}

INSTANTIATE_TEST_SUITE_P(Calls, OthersGoOn,
                         ::testing::Values(Held::sync_data, Held::sync, Held::rename, Held::make_directory,
                                           Held::write),
                         [](const auto& each) {
                           return "Call" + std::to_string(static_cast<int>(each.param));
                         });

TEST_F(Verdict, TheBlockingPhaseAwaitsNoDirectory) {
  calls_->hold(Held::make_directory);

  const AsyncResponse response = start(1);

  EXPECT_TRUE(response.is_staged());
  calls_->let_go();
  response.wait();
}

TEST_F(Verdict, ARemovalWaitsForTheSaveBeforeIt) {
  calls_->hold(Held::sync, 1);
  const AsyncResponse response = start(1);
  ASSERT_TRUE(calls_->holds());
  std::jthread remover([&] { remove_checkpoint(target(), {}, *context_); });

  calls_->let_go();
  response.wait();
  remover.join();

  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(Verdict, ARemovalThatWasGivenUpDoesNotTouchALaterSave) {
  start(1).wait();
  calls_->hold(Held::rename, 1);
  RemoveOptions options;
  options.deadline = 1s;
  std::jthread remover([&] {
    EXPECT_THAT([&] { remove_checkpoint(target(), options, *context_); },
                Fails(Errc::timed_out, HasSubstr("removal of")));
  });
  ASSERT_TRUE(calls_->holds());
  clock_->advance(1s);
  remover.join();

  const AsyncResponse later = start(2);
  calls_->let_go();
  later.wait();

  EXPECT_EQ(stored(), 2);
}

TEST_F(Verdict, ARemovalThatWasGivenUpBeforeItBeganNeverDoes) {
  start(1).wait();
  calls_->hold(Held::open);
  RemoveOptions options;
  options.deadline = 1s;
  std::jthread remover([&] {
    EXPECT_THAT([&] { remove_checkpoint(target(), options, *context_); },
                Fails(Errc::timed_out, HasSubstr("nothing was changed")));
  });
  ASSERT_TRUE(calls_->holds());
  clock_->advance(1s);
  remover.join();

  calls_->let_go();
  wait_until_all_has_ended();

  EXPECT_EQ(stored(), 1);
}

TEST_F(Verdict, ARemovalThatGoesOnIsNamedByClose) {
  start(1).wait();
  calls_->hold(Held::rename, 1);
  RemoveOptions options;
  options.deadline = 1s;
  std::jthread remover([&] {
    EXPECT_THAT([&] { remove_checkpoint(target(), options, *context_); },
                Fails(Errc::timed_out, HasSubstr("it goes on")));
  });
  ASSERT_TRUE(calls_->holds());
  clock_->advance(1s);
  remover.join();

  EXPECT_THAT([&] { context_->close(); }, Fails(Errc::still_running, HasSubstr("removal of")));
}

/// Every call that touches the disk comes back at its deadline.
TEST_F(Verdict, CallsThatBlockHaveDeadlines) {
  start(1).wait();
  calls_->hold(Held::open);
  RecoverOptions recovering;
  recovering.deadline = 1s;
  VerifyOptions verifying;
  verifying.deadline = 1s;
  LoadOptions describing;
  describing.deadline = 1s;
  RemoveOptions removing;
  removing.deadline = 1s;
  std::latch told(4);
  std::vector<std::jthread> callers;
  callers.emplace_back([&] {
    EXPECT_THAT([&] { remove_checkpoint(target(), removing, *context_); }, Fails(Errc::timed_out));
    told.count_down();
  });
  callers.emplace_back([&] {
    EXPECT_THAT([&] { recover(directory_.path(), recovering, *context_); }, Fails(Errc::timed_out));
    told.count_down();
  });
  callers.emplace_back([&] {
    EXPECT_THAT([&] { static_cast<void>(verify(target(), verifying, *context_)); }, Fails(Errc::timed_out));
    told.count_down();
  });
  callers.emplace_back([&] {
    EXPECT_THAT([&] { static_cast<void>(checkpointables_metadata(target(), describing, *context_)); },
                Fails(Errc::timed_out));
    told.count_down();
  });
  ASSERT_TRUE(calls_->holds(4));

  clock_->advance(1s);
  while (
      !told.try_wait()) {  // The grace of each begins when its deadline was heard of, on a thread of the context's.
    static_cast<void>(async::Event().wait_for(20ms));
    clock_->advance(context_->options().stop_grace);
  }
}

/// The one look at the target is part of the save: the thread that called need not wait for the disk.
class VerdictOfALook : public Verdict, public ::testing::WithParamInterface<bool> {
 protected:
  VerdictOfALook() : Verdict(1) {}
};

INSTANTIATE_TEST_SUITE_P(, VerdictOfALook, ::testing::Values(false, true), [](const auto& is_accepted) {
  return is_accepted.param ? "ReturnedWhenAccepted" : "ReturnedWhenStaged";
});

TEST_P(VerdictOfALook, EndsWithTheContext) {
  calls_->hold(Held::open, 1);
  async::Event is_answered;
  std::jthread caller([&] {
    SaveOptions options;
    options.return_when_accepted = GetParam();
    EXPECT_THAT(
        [&] {
          static_cast<void>(save_async(target(), Tree({{"step", 1}}), options, *context_));
        },
        Fails(Errc::closed));
    is_answered.set();
  });
  ASSERT_TRUE(calls_->holds());
  std::jthread closer([&] { EXPECT_THAT([&] { context_->close(); }, Fails(Errc::still_running)); });

  for (int i = 0; i < 2000 && !is_answered.has_happened(); ++i) {
    clock_->advance(context_->options().close_timeout);
    static_cast<void>(is_answered.wait_for(5ms));
  }

  EXPECT_TRUE(is_answered.has_happened());
  closer.join();
  calls_->let_go();
  caller.join();
  context_.reset();
  EXPECT_FALSE(std::filesystem::exists(target()));
}

TEST_P(VerdictOfALook, ThatWasGivenUpTakesNoPlaceInTheQueue) {
  calls_->hold(Held::open, 1);
  SaveOptions options;
  options.return_when_accepted = GetParam();
  options.deadline = 1s;
  std::jthread caller([&] {
    EXPECT_THAT(
        [&] {
          static_cast<void>(save_async(target(), Tree({{"step", 1}}), options, *context_));
        },
        Fails(Errc::timed_out));
  });
  ASSERT_TRUE(calls_->holds());
  std::jthread ticking([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      clock_->advance(1s);
      static_cast<void>(async::Event().wait_for(5ms));
    }
  });
  caller.join();
  ticking.request_stop();
  ticking.join();
  calls_->let_go();

  start(2).wait();

  EXPECT_EQ(stored(), 2);
}

TEST_F(Verdict, MaxMeansForEver) {
  ContextOptions options = small();
  options.close_timeout = std::chrono::seconds::max();
  options.stop_grace = std::chrono::hours::max();
  Context context(std::move(options));
  SaveOptions how;
  how.deadline = std::chrono::seconds::max();
  const AsyncResponse response = save_async(target(), Tree({{"step", 1}}), how, context);

  EXPECT_EQ(response.wait(std::chrono::seconds::max()).path, target());
  EXPECT_NO_THROW(context.close());
}

}  // namespace
}  // namespace cairn
