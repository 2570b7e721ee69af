// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "api/fixture.hpp"
#include "api/scripted.hpp"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using testing::Act;
using ::testing::Each;
using testing::Fails;
using testing::Script;

class Response : public testing::ApiTest {
 protected:
  static ContextOptions scripted() {
    ContextOptions options = small();
    options.registry.add<testing::ScriptedHandler>();
    return options;
  }

  Response() : ApiTest(scripted()) {}

  [[nodiscard]] AsyncResponse start(const Script& script, const SaveOptions& options = {}) const {
    return save_checkpointables_async(target(), {{"script", script}}, options, *context_);
  }

  static Script slow() {
    Script script;
    script.delay = milliseconds(200);
    return script;
  }
};

TEST_F(Response, IsStagedBeforeItIsDone) {
  const Script script = slow();

  const AsyncResponse response = start(script);

  EXPECT_TRUE(response.is_staged());
  EXPECT_FALSE(response.is_done());
}

TEST_F(Response, MayBeWaitedForAgain) {
  const AsyncResponse response = start(Script());

  EXPECT_EQ(response.wait().path, target());
  EXPECT_EQ(response.wait().path, target());
}

TEST_F(Response, OfNoSaveReturnsAtOnce) {
  const AsyncResponse response;

  EXPECT_TRUE(response.wait().path.empty());
}

TEST_F(Response, WaitGivesUpWhileTheSaveGoesOn) {
  const Script script = slow();
  const AsyncResponse response = start(script);

  EXPECT_THAT([&] { response.wait(milliseconds(1)); }, Fails(Errc::still_running));
  EXPECT_EQ(response.wait().path, target());
}

TEST_F(Response, DroppedLetsTheSaveGoOn) {
  { const AsyncResponse dropped = start(Script()); }

  context_->close();

  EXPECT_TRUE(load_checkpointables(target(), {}, {}, Context(scripted())).has("script"));
}

TEST_F(Response, TellsWhatWasWritten) {
  const std::vector<float> values(1 << 18);
  const SaveResult result = save_checkpointables(target(), {{"values", values}}, *context_);

  EXPECT_GE(result.bytes, sizeof(float) * values.size());
  EXPECT_EQ(result.engine, "threads");
  EXPECT_GE(result.durable_time, result.blocking_time);
}

TEST_F(Response, ProgressReachesTheTotal) {
  const std::vector<float> values(1 << 18);
  const AsyncResponse response = save_checkpointables_async(target(), {{"values", values}}, *context_);

  response.wait();

  EXPECT_GE(response.progress().total_bytes, sizeof(float) * values.size());
  EXPECT_EQ(response.progress().written_bytes, response.progress().total_bytes);
  EXPECT_EQ(response.progress().staged_bytes, response.progress().total_bytes);
}

TEST_F(Response, ReturnWhenAcceptedDoesNotWaitForTheBlockingPhase) {
  const Script script(Act::wait, Act::pass);

  const AsyncResponse response = start(script, return_when_accepted);

  EXPECT_FALSE(response.is_staged());
  response.cancel();
  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::cancelled));
}

TEST_F(Response, WaitStagedGivesUpWhileTheBlockingPhaseGoesOn) {
  const Script script(Act::wait, Act::pass);
  const AsyncResponse response = start(script, return_when_accepted);

  EXPECT_THAT([&] { response.wait_staged(milliseconds(1)); }, Fails(Errc::still_running));
  EXPECT_FALSE(response.is_staged());
  response.cancel();
}

TEST_F(Response, WaitStagedReturnsBeforeTheSaveIsDone) {
  const Script script(Act::pass, Act::wait);
  const AsyncResponse response = start(script, return_when_accepted);

  response.wait_staged();
  response.wait_staged(milliseconds(0));

  EXPECT_TRUE(response.is_staged());
  EXPECT_FALSE(response.is_done());
  response.cancel();
}

TEST_F(Response, WhatIsWrittenAfterWaitStagedIsNotSaved) {
  std::vector<float> values(1 << 20, 1.0F);
  const AsyncResponse response =
      save_checkpointables_async(target(), {{"values", values}}, return_when_accepted, *context_);

  response.wait_staged();
  std::fill(values.begin(), values.end(), 2.0F);
  response.wait();

  const Array loaded = load_checkpointables(target(), {}, {}, *context_).take<Array>("values");
  EXPECT_THAT(loaded.data<const float>(), Each(1.0F));
}

TEST_F(Response, WaitStagedTellsOfAFailureBeforeThat) {
  const Script script(Act::throw_error, Act::pass);
  const AsyncResponse response = start(script, return_when_accepted);

  EXPECT_ANY_THROW(response.wait_staged());
  EXPECT_ANY_THROW(response.wait_staged(std::chrono::seconds(10)));
  EXPECT_ANY_THROW(response.wait());
}

TEST_F(Response, ALoadInFlightGivesItsValues) {
  save(target(), tree_, {}, *context_);

  EXPECT_EQ(load_async(target(), std::nullopt, {}, *context_).wait(), tree_);
}

/// Appends the thread on which each completion point resumes the caller.
Awaitable<> follow(const AsyncResponse* response, std::vector<std::thread::id>* threads) {
  co_await response->staged();
  threads->push_back(std::this_thread::get_id());
  co_await response->committed();
  threads->push_back(std::this_thread::get_id());
}

TEST_F(Response, ResumesAProgramOnItsOwnExecutor) {
  const Script script = slow();
  const AsyncResponse response = start(script, return_when_accepted);
  std::vector<std::thread::id> threads;
  boost::asio::io_context io;
  std::exception_ptr failure;
  boost::asio::co_spawn(io, follow(&response, &threads),
                        [&failure](std::exception_ptr thrown) { failure = thrown; });

  io.run();

  EXPECT_EQ(failure, nullptr);
  EXPECT_EQ(threads.size(), 2u);
  EXPECT_THAT(threads, Each(std::this_thread::get_id()));
}

TEST_F(Response, ThrowsIntoTheProgramThatAwaitsIt) {
  const Script script(Act::pass, Act::throw_error);
  const AsyncResponse response = start(script);
  std::vector<std::thread::id> threads;
  boost::asio::io_context io;
  std::exception_ptr failure;
  boost::asio::co_spawn(io, follow(&response, &threads),
                        [&failure](std::exception_ptr thrown) { failure = thrown; });

  io.run();

  EXPECT_EQ(code_of(failure), make_error_code(Errc::shape_mismatch));
}

}  // namespace
}  // namespace cairn
