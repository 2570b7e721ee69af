// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "api/fixture.hpp"
#include "api/scripted.hpp"
#include "support/manual_clock.hpp"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using testing::Act;
using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Script;

/// Saves and loads what misbehaves.
class HandlerFailure : public testing::ApiTest {
 protected:
  static ContextOptions scripted() {
    ContextOptions options = small();
    options.registry.add<testing::ScriptedHandler>();
    return options;
  }

  HandlerFailure() : ApiTest(scripted()) {}
};

TEST_F(HandlerFailure, InTheBlockingPhaseKeepsItsCodeAndNamesTheCheckpointable) {
  const Script script(Act::throw_error, Act::pass);

  EXPECT_THAT(
      [&] {
        save_items({{"broken", script}});
      },
      Fails(Errc::shape_mismatch, AllOf(HasSubstr("'broken'"), HasSubstr("test.scripted/1"),
                                        HasSubstr("a shape that nobody likes"))));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(HandlerFailure, InTheBlockingPhaseIsThrownByTheCallThatStartsTheSave) {
  const Script script(Act::throw_standard, Act::pass);

  EXPECT_THAT(
      [&] {
        static_cast<void>(save_checkpointables_async(target(), {{"broken", script}}, *context_));
      },
      Fails(Errc::handler_failed, HasSubstr("out of luck")));
}

TEST_F(HandlerFailure, InTheBackgroundIsThrownByTheResponse) {
  const Script script(Act::pass, Act::throw_standard);
  const AsyncResponse response = save_checkpointables_async(target(), {{"broken", script}}, *context_);

  EXPECT_THAT([&] { response.wait(); },
              Fails(Errc::handler_failed, AllOf(HasSubstr("'broken'"), HasSubstr("out of luck"))));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(HandlerFailure, KeepsTheOriginalExceptionNested) {
  const Script script(Act::pass, Act::throw_standard);
  std::string original;

  try {
    save_items({{"broken", script}});
  } catch (const Error& error) {
    try {
      std::rethrow_if_nested(error);
    } catch (const std::runtime_error& nested) {
      original = nested.what();
    }
  }

  EXPECT_EQ(original, "out of luck");
}

TEST_F(HandlerFailure, ByWhatIsNoStandardExceptionIsReportedInBothPhases) {
  EXPECT_THAT(
      [&] {
        save_items({{"broken", Script(Act::throw_integer, Act::pass)}});
      },
      Fails(Errc::handler_failed, HasSubstr("unknown type")));
  EXPECT_THAT(
      [&] {
        save_items({{"broken", Script(Act::pass, Act::throw_integer)}});
      },
      Fails(Errc::handler_failed, HasSubstr("unknown type")));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(HandlerFailure, ThatIsAVerdictOfAnotherSaveIsNotThatOfItsOwn) {
  for (const Act act : {Act::throw_unknown, Act::throw_superseded}) {
    for (const Script& script : {Script(act, Act::pass), Script(Act::pass, act)}) {
      EXPECT_THAT(
          [&] {
            save_items({{"broken", script}});
          },
          Fails(Errc::handler_failed,
                AllOf(HasSubstr("'broken'"), HasSubstr("test.scripted/1"), HasSubstr("of an inner save"))));
    }
  }
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(HandlerFailure, ThatIsACancellationNobodyAskedForNamesTheHandler) {
  for (const Script& script :
       {Script(Act::throw_cancelled, Act::pass), Script(Act::pass, Act::throw_cancelled)}) {
    EXPECT_THAT(
        [&] {
          save_items({{"broken", script}});
        },
        Fails(Errc::handler_failed, AllOf(HasSubstr("'broken'"), HasSubstr("test.scripted/1"))));
  }
}

TEST_F(HandlerFailure, ThatIsAVerdictOfAnotherSaveIsNotThatOfAStoppedOne) {
  Script script(Act::pass, Act::throw_unknown);
  script.delay = std::chrono::hours(1);
  const AsyncResponse response = save_checkpointables_async(target(), {{"slow", script}}, *context_);

  response.cancel();

  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::cancelled));
}

TEST_F(HandlerFailure, OfALoadIsNoVerdictOfAnotherSave) {
  save_items({{"script", Script()}});

  for (const Act act : {Act::throw_unknown, Act::throw_cancelled}) {
    for (const Script& script : {Script(act, Act::pass), Script(Act::pass, act)}) {
      EXPECT_THAT(
          [&] {
            static_cast<void>(load_items({{"script", script}}));
          },
          Fails(Errc::handler_failed, HasSubstr("'script'")));
    }
  }
}

TEST_F(HandlerFailure, OfALoadNamesTheCheckpointableInBothPhases) {
  save_items({{"script", Script()}});

  EXPECT_THAT(
      [&] {
        static_cast<void>(load_items({{"script", Script(Act::throw_integer, Act::pass)}}));
      },
      Fails(Errc::handler_failed, HasSubstr("'script'")));
  EXPECT_THAT(
      [&] {
        static_cast<void>(load_items({{"script", Script(Act::pass, Act::throw_standard)}}));
      },
      Fails(Errc::handler_failed, AllOf(HasSubstr("'script'"), HasSubstr("out of luck"))));
}

TEST_F(HandlerFailure, OfOneWaitsForAllOthers) {
  const Script broken(Act::pass, Act::throw_error);
  const Script waiting(Act::pass, Act::wait);

  EXPECT_THAT([&] { save_items({{"broken", broken}, {"waiting", waiting}}); }, Fails(Errc::shape_mismatch));
  EXPECT_EQ(*waiting.running, 0);
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(HandlerFailure, OfSeveralThrowsTheFirstAndListsTheOthers) {
  EXPECT_THAT(
      [&] {
        save_items({{"first", Script(Act::throw_error, Act::pass)},
                    {"second", Script(Act::throw_standard, Act::pass)}});
      },
      Fails(Errc::shape_mismatch,
            AllOf(HasSubstr("'first'"), HasSubstr("'second'"), HasSubstr("out of luck"))));
}

TEST_F(HandlerFailure, KeepsTheCheckpointThatWouldHaveBeenOverwritten) {
  save_items({{"model", tree_}});
  SaveOptions options;
  options.overwrite = true;

  EXPECT_THAT(
      [&] {
        save_items({{"broken", Script(Act::pass, Act::throw_error)}}, options);
      },
      Fails(Errc::shape_mismatch));
  EXPECT_EQ(load_items().take<Tree>("model"), tree_);
}

TEST_F(HandlerFailure, CancelEndsAHandlerThatWaits) {
  const Script script(Act::pass, Act::wait);
  const AsyncResponse response = save_checkpointables_async(target(), {{"slow", script}}, *context_);

  response.cancel();

  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::cancelled, HasSubstr(target().string())));
  EXPECT_EQ(*script.running, 0);
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(HandlerFailure, CancelHoldsForAHandlerThatFinishesAllTheSame) {
  const Script script(Act::pass, Act::finish_after_cancel);
  const AsyncResponse response = save_checkpointables_async(target(), {{"slow", script}}, *context_);
  ASSERT_TRUE(testing::eventually([&] { return *script.running == 1; }));

  response.cancel();

  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::cancelled));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(HandlerFailure, DeadlineEndsAHandlerThatWaits) {
  SaveOptions options;
  options.deadline = milliseconds(100);

  EXPECT_THAT(
      [&] {
        save_items({{"slow", Script(Act::pass, Act::wait)}}, options);
      },
      Fails(Errc::timed_out, HasSubstr(target().string())));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(HandlerFailure, DeadlineEndsABlockingPhaseThatWaits) {
  SaveOptions options;
  options.deadline = milliseconds(100);

  EXPECT_THAT([&] { save_items({{"slow", Script(Act::wait, Act::pass)}}, options); }, Fails(Errc::timed_out));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(HandlerFailure, DeadlineFreesTheCallerOfAHandlerThatNeverEnds) {
  const auto clock = std::make_shared<testing::ManualClock>();
  ContextOptions on_clock = scripted();
  on_clock.clock = clock;
  context_.emplace(std::move(on_clock));
  SaveOptions options;
  options.deadline = std::chrono::hours(1);
  const Script script(Act::pass, Act::ignore_cancel);
  const AsyncResponse response = save_checkpointables_async(target(), {{"slow", script}}, options, *context_);
  script.is_stuck.get();

  // The time until it is given up is counted from when it is stopped, so a single step is not enough.
  const std::jthread time([&](const std::stop_token& is_over) {
    while (!is_over.stop_requested()) {
      clock->advance(std::chrono::hours(1));
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::timed_out, HasSubstr("still runs")));

  EXPECT_EQ(*script.running, 1);
  script.let_go.set();
  EXPECT_TRUE(testing::eventually(
      [&] { return *script.running == 0 && std::filesystem::is_empty(directory_.path()); }));
}

TEST_F(HandlerFailure, DeadlineEndsALoad) {
  save_items({{"script", Script()}});
  LoadOptions options;
  options.deadline = milliseconds(100);
  const Requests requests = {{"script", Script(Act::pass, Act::wait)}};

  EXPECT_THAT([&] { static_cast<void>(load_checkpointables(target(), requests, options, *context_)); },
              Fails(Errc::timed_out, HasSubstr(target().string())));
}

TEST_F(HandlerFailure, NobodyWaitedForIsToldToTheContext) {
  std::string lost;
  ContextOptions options = scripted();
  options.on_lost_failure = [&lost](const std::string& path, const std::exception_ptr& failure) {
    lost = path + ": " + describe(failure);
  };
  Context context(std::move(options));

  {
    const auto dropped =
        save_checkpointables_async(target(), {{"lost", Script(Act::pass, Act::throw_error)}}, context);
  }

  EXPECT_THAT([&] { context.close(); }, Fails(Errc::shape_mismatch, HasSubstr("'lost'")));
  EXPECT_THAT(lost, AllOf(HasSubstr(target().string()), HasSubstr("'lost'")));
}

TEST_F(HandlerFailure, CannotKeepItselfFromBeingToldToTheContext) {
  Context context(scripted());

  {
    const auto dropped =
        save_checkpointables_async(target(), {{"lost", Script(Act::pass, Act::throw_superseded)}}, context);
  }

  EXPECT_THAT([&] { context.close(); }, Fails(Errc::handler_failed, HasSubstr("'lost'")));
}

TEST_F(HandlerFailure, ClosingTheContextEndsWhatStillRuns) {
  ContextOptions options = scripted();
  options.close_timeout = std::chrono::seconds(0);
  Context context(std::move(options));
  const AsyncResponse response =
      save_checkpointables_async(target(), {{"slow", Script(Act::pass, Act::wait)}}, context);

  context.close();

  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::closed));
  EXPECT_THAT(left(), IsEmpty());
}

}  // namespace
}  // namespace cairn
