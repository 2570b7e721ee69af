// SPDX-License-Identifier: Apache-2.0
#include "core/internal/disk_calls.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <gmock/gmock.h>

#include "cairn/core/context.hpp"

#include "async/internal/event.hpp"
#include "support/fails.hpp"
#include "support/manual_clock.hpp"
#include "support/run.hpp"

namespace cairn::core {
namespace {

using std::chrono::seconds;
using testing::Fails;
using ::testing::HasSubstr;

/// Calls of a context whose time is set by the work itself.
class DiskCallsOf : public ::testing::Test {
 protected:
  DiskCallsOf() {
    ContextOptions options;
    options.clock = clock_;
    options.worker_threads = 1;
    context_.emplace(options);
    calls_.emplace(*context_);
  }

  ~DiskCallsOf() override { may_end_.set(); }  // Before the context waits for the work.

  /// Work that is still under way when its deadline has come.
  [[nodiscard]] std::function<void()> late() const {
    return [clock = clock_, may_end = may_end_] {
      clock->advance(seconds(3));
      may_end.get();
    };
  }

  const std::shared_ptr<testing::ManualClock> clock_ = std::make_shared<testing::ManualClock>();
  const async::Event may_end_;
  std::optional<Context> context_;
  std::optional<DiskCalls> calls_;
};

using DiskCallsRun = DiskCallsOf;
using DiskCallsAwait = DiskCallsOf;
using DiskCallsChange = DiskCallsOf;

TEST_F(DiskCallsRun, CallsOnTheCallersThreadWithoutADeadline) {
  std::thread::id caller;

  calls_->run("looking", seconds(0), [&caller] { caller = std::this_thread::get_id(); });

  EXPECT_EQ(caller, std::this_thread::get_id());
}

TEST_F(DiskCallsRun, CallsOnAnotherThreadWithADeadline) {
  std::thread::id caller;

  calls_->run("looking", seconds(2), [&caller] { caller = std::this_thread::get_id(); });

  EXPECT_NE(caller, std::thread::id());
  EXPECT_NE(caller, std::this_thread::get_id());
}

TEST_F(DiskCallsRun, RethrowsWhatTheWorkThrows) {
  const auto work = [] { throw Error(Errc::not_found, "nothing is there"); };

  EXPECT_THAT([&] { calls_->run("looking", seconds(0), work); }, Fails(Errc::not_found));
  EXPECT_THAT([&] { calls_->run("looking", seconds(2), work); }, Fails(Errc::not_found));
}

TEST_F(DiskCallsRun, ReturnsAtTheDeadlineAndSaysWhatIsLate) {
  EXPECT_THAT([&] { calls_->run("looking at /a", seconds(2), late()); },
              Fails(Errc::timed_out, HasSubstr("looking at /a: not done after 2.000 s")));
}

TEST_F(DiskCallsRun, ReturnsWhatWasAskedFor) {
  const std::function<std::string()> ask = [] { return std::string("an answer"); };

  EXPECT_EQ(calls_->ask<std::string>("asking", seconds(0), ask), "an answer");
  EXPECT_EQ(calls_->ask<std::string>("asking", seconds(2), ask), "an answer");
}

TEST_F(DiskCallsAwait, IsOverAtTheDeadline) {
  EXPECT_THAT([&] { testing::run(calls_->await("looking at /a", seconds(2), late())); },
              Fails(Errc::timed_out, HasSubstr("looking at /a: not done after 2.000 s")));
}

TEST_F(DiskCallsAwait, ReturnsWhatWasAskedFor) {
  const std::function<int()> ask = [] { return 7; };

  EXPECT_EQ(testing::run(calls_->await_answer<int>("asking", seconds(2), ask)), 7);
}

TEST_F(DiskCallsChange, ForbidsWorkThatIsLateToBegin) {
  const auto may_begin = std::make_shared<std::optional<bool>>();
  const async::Event ended;

  EXPECT_THAT(
      [&] {
        calls_->change("removing /a", seconds(2), [may_begin, ended, late = late()](CommitState& commit) {
          late();
          *may_begin = commit.begin_commit();
          ended.set();
        });
      },
      Fails(Errc::timed_out, HasSubstr("removing /a: not done after 2.000 s; nothing was changed")));

  may_end_.set();
  ended.get();
  EXPECT_EQ(*may_begin, false);
}

TEST_F(DiskCallsChange, SaysThatWorkGoesOnWhichHasBegun) {
  EXPECT_THAT(
      [&] {
        calls_->change("removing /a", seconds(2), [late = late()](CommitState& commit) {
          EXPECT_TRUE(commit.begin_commit());
          late();
        });
      },
      Fails(Errc::timed_out, HasSubstr("; it goes on")));
}

TEST_F(DiskCallsChange, IsRefusedOnceTheContextIsClosed) {
  context_->close();

  bool is_called = false;
  EXPECT_THAT(
      [&] { calls_->change("removing /a", seconds(0), [&is_called](CommitState&) { is_called = true; }); },
      Fails(Errc::closed));
  EXPECT_FALSE(is_called);
}

}  // namespace
}  // namespace cairn::core
