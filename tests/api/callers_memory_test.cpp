// SPDX-License-Identifier: Apache-2.0
// When memory is the caller's again: what is answered, released and done, and in which order.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "api/fixture.hpp"
#include "api/scripted.hpp"
#include "async/internal/event.hpp"
#include "io/internal/direct.hpp"
#include "support/held_syscalls.hpp"

namespace cairn {
namespace {

using namespace std::chrono_literals;
using testing::Act;
using testing::eventually;
using testing::Fails;
using testing::Held;
using testing::Script;

class CallersMemory : public testing::ApiTest {
 protected:
  CallersMemory() : ApiTest(small()) { renew_context(10ms); }

  ~CallersMemory() override {
    calls_->let_go();
    context_.reset();
  }

  void renew_context(Timeout stop_grace) {
    ContextOptions options = small();
    options.syscalls = calls_;
    options.stop_grace = stop_grace;
    options.registry.add<testing::ScriptedHandler>();
    context_.emplace(std::move(options));
  }

  static constexpr int kAll = 1 << 20;
  static constexpr std::size_t kLarge = std::size_t{1} << 20;

  /// Elements that the kernel reads where they are.
  [[nodiscard]] ArrayView aligned() const {
    const std::size_t misplaced = reinterpret_cast<std::uintptr_t>(weights_.data()) % io::kDirectBytes;
    const std::size_t first = misplaced == 0 ? 0 : (io::kDirectBytes - misplaced) / sizeof(float);
    return ArrayView(std::span(weights_).subspan(first, weights_.size() / 2));
  }

  static SaveOptions borrowing() {
    SaveOptions options;
    options.snapshot = Snapshot::borrow;
    return options;
  }

  /// Lets calls go in a while, and says when.
  std::jthread let_go_soon() {
    return std::jthread([this] {
      std::this_thread::sleep_for(150ms);
      was_let_go_ = true;
      calls_->let_go();
    });
  }

  const std::shared_ptr<testing::HeldSyscalls> calls_ = std::make_shared<testing::HeldSyscalls>();
  std::atomic<bool> was_let_go_{false};
  std::vector<float> weights_ = std::vector<float>(1 << 22, 1.0F);
};

TEST_F(CallersMemory, OfACopyIsReleasedAtStaged) {
  calls_->hold(Held::sync);
  const AsyncResponse response = save_async(target(), Tree({{"weights", weights_}}), {}, *context_);

  EXPECT_TRUE(response.is_released());
  EXPECT_FALSE(response.is_done());
  calls_->let_go();
  response.wait();
}

TEST_F(CallersMemory, ThatIsBorrowedIsReleasedAtTheEnd) {
  calls_->hold(Held::sync);
  const Tree tree = {{"weights", weights_}};
  const AsyncResponse response = save_async(target(), tree, borrowing(), *context_);
  ASSERT_TRUE(calls_->holds());

  EXPECT_FALSE(response.is_released());
  calls_->let_go();
  response.wait();

  EXPECT_TRUE(response.is_released());
}

TEST_F(CallersMemory, ThatIsBorrowedIsNotReadAnyMoreWhenTheSaveHasFailed) {
  calls_->hold(Held::write, kAll, kLarge);
  const Tree tree = {{"weights", aligned()}};
  const AsyncResponse response = save_async(target(), tree, borrowing(), *context_);
  ASSERT_TRUE(calls_->holds(2));
  response.cancel();
  const std::jthread soon = let_go_soon();

  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::cancelled));

  EXPECT_TRUE(was_let_go_) << "answered while the kernel still read the memory";
  EXPECT_TRUE(response.is_released());
}

TEST_F(CallersMemory, ThatIsBorrowedAndUntouchedDoesNotKeepTheVerdictWaiting) {
  calls_->hold(Held::sync);
  const Tree tree = {{"weights", weights_}};
  const AsyncResponse response = save_async(target(), tree, borrowing(), *context_);
  ASSERT_TRUE(calls_->holds());
  response.cancel();

  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::cancelled));

  EXPECT_TRUE(response.is_released());
  EXPECT_FALSE(response.is_done());
}

TEST_F(CallersMemory, IsFreeBeforeASaveThatFailedHasCleanedUp) {
  calls_->hold(Held::unlink);
  Script script(Act::pass, Act::throw_error);
  const AsyncResponse response =
      save_checkpointables_async(target(), {{"script", script}}, borrowing(), *context_);
  ASSERT_TRUE(calls_->holds());

  EXPECT_TRUE(eventually([&] { return response.is_released(); }));

  EXPECT_FALSE(response.is_done());
  calls_->let_go();
  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::shape_mismatch));
}

class LoadsIntoMemory : public CallersMemory {
 protected:
  LoadsIntoMemory() {
    save(target(), {{"weights", weights_}}, {}, Context(small()));
    std::fill(weights_.begin(), weights_.end(), 0.0F);
    wanted_ = metadata(target(), *context_);
    wanted_["weights"].place_into(weights_);
  }

  AbstractTree wanted_;
};

TEST_F(LoadsIntoMemory, WriteNoMoreWhenTheyHaveFailed) {
  calls_->hold(Held::read, kAll, kLarge);
  const TreeResponse response = load_async(target(), wanted_, {}, *context_);
  ASSERT_TRUE(calls_->holds());
  response.cancel();
  const std::jthread soon = let_go_soon();

  EXPECT_THAT([&] { static_cast<void>(response.wait()); }, Fails(Errc::cancelled));
  const std::vector<float> then = weights_;

  EXPECT_TRUE(was_let_go_) << "answered while the kernel still wrote to the memory";
  response.wait_done();
  EXPECT_EQ(weights_, then);
}

TEST_F(LoadsIntoMemory, StopWhenTheirResponseIsDropped) {
  calls_->hold(Held::read, kAll, kLarge);
  const std::jthread soon = let_go_soon();

  static_cast<void>(load_async(target(), wanted_, {}, *context_));
  const std::vector<float> then = weights_;

  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(weights_, then);
}

TEST_F(LoadsIntoMemory, WithoutADestinationAreAnsweredInTime) {
  calls_->hold(Held::read, kAll, kLarge);
  std::optional<Context> reader(std::in_place, context_->options());
  const LoadResponse response = load_checkpointables_async(target(), {}, {}, *reader);
  ASSERT_TRUE(calls_->holds());
  response.cancel();

  EXPECT_THAT([&] { static_cast<void>(response.wait()); }, Fails(Errc::cancelled));

  EXPECT_TRUE(response.is_released());
  EXPECT_FALSE(response.is_done());
  calls_->let_go();
  response.wait_done();
}

TEST_F(CallersMemory, IsWaitedForByTheResponseThatIsDropped) {
  Script script(Act::ignore_cancel, Act::pass);
  const async::Event is_dropped;
  const std::jthread last_resort([&] {
    if (!is_dropped.wait_for(5s)) {
      was_let_go_ = true;
      script.let_go.set();
    }
  });

  static_cast<void>(
      save_checkpointables_async(target(), {{"script", script}}, return_when_accepted, *context_));

  is_dropped.set();
  EXPECT_FALSE(was_let_go_) << "nobody ended the handler";
  // Else it would wait for ever, and keep what it waits for: the threads of its context.
  script.let_go.set();
}

TEST_F(CallersMemory, IsNoReasonToWaitWhereValuesWereMovedIn) {
  SaveOptions options(return_when_accepted);
  Script script(Act::pass, Act::pass);
  script.delay = 50ms;

  {
    const AsyncResponse dropped =
        save_checkpointables_async(target(), {{"script", std::move(script)}}, options, *context_);
  }
  context_->close();

  EXPECT_THAT(left(), ::testing::Contains("checkpoint/COMMIT"));
}

TEST_F(CallersMemory, OfViewsIsTheCallersAlsoWhereTheyAreMovedIn) {
  calls_->hold(Held::sync);
  const AsyncResponse response =
      save_checkpointables_async(target(), {{"weights", ArrayView(weights_)}}, borrowing(), *context_);

  EXPECT_FALSE(response.is_released());
  calls_->let_go();
  response.wait();
}

TEST_F(CallersMemory, IsReleasedBeforeAResponseIsAssignedTo) {
  const Script script(Act::wait, Act::pass);
  AsyncResponse response =
      save_checkpointables_async(target(), {{"script", script}}, return_when_accepted, *context_);

  response = AsyncResponse();

  EXPECT_FALSE(std::filesystem::exists(target() / "COMMIT"));  // The rest of it may still be removed.
}

/// The guide's pattern: a save that may take so long. The value is the coroutine's.
Awaitable<> save_within(const Context* context, std::filesystem::path path, std::chrono::nanoseconds limit,
                        std::weak_ptr<std::atomic<int>>* running, bool* was_staged) {
  using boost::asio::experimental::awaitable_operators::operator||;
  const Script script(Act::wait, Act::pass);
  *running = script.running;
  const AsyncResponse response =
      save_checkpointables_async(path, {{"script", script}}, return_when_accepted, *context);
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, limit);
  auto winner = co_await (response.staged() || timer.async_wait(boost::asio::use_awaitable));
  *was_staged = winner.index() == 0;
  // The coroutine's own cancellation state is as it was: it may await more.
  boost::asio::steady_timer another(co_await boost::asio::this_coro::executor, 1ms);
  co_await another.async_wait(boost::asio::use_awaitable);
}

TEST_F(CallersMemory, IsFreeWhenACancelledAwaitEnds) {
  renew_context(1h);  // Whoever gives up earlier leaves the directory to recovery.
  boost::asio::io_context io;
  std::exception_ptr failure;
  std::weak_ptr<std::atomic<int>> running;
  bool was_staged = true;
  boost::asio::co_spawn(io, save_within(&*context_, target(), 20ms, &running, &was_staged),
                        [&failure](std::exception_ptr thrown) { failure = thrown; });

  io.run();

  EXPECT_EQ(failure, nullptr);
  EXPECT_FALSE(was_staged);
  EXPECT_TRUE(eventually([&] { return running.expired(); }));
  context_->close();
  EXPECT_THAT(left(), ::testing::IsEmpty());
}

TEST_F(CallersMemory, IsFreeWhenAnIoContextIsDestroyedMeanwhile) {
  std::weak_ptr<std::atomic<int>> running;
  bool was_staged = true;
  {
    boost::asio::io_context io;
    boost::asio::co_spawn(io, save_within(&*context_, target(), 1h, &running, &was_staged),
                          [](const std::exception_ptr&) {});
    io.poll();
  }

  EXPECT_TRUE(eventually([&] { return running.expired(); }));
}

Awaitable<> await_commit(const AsyncResponse* response) {
  using boost::asio::experimental::awaitable_operators::operator||;
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, 20ms);
  co_await (response->committed() || timer.async_wait(boost::asio::use_awaitable));
}

TEST_F(CallersMemory, ThatIsReleasedAlreadyLetsTheSaveGoOnWhenItsAwaitIsCancelled) {
  calls_->hold(Held::sync);
  const AsyncResponse response = save_async(target(), Tree({{"step", 1}}), {}, *context_);
  boost::asio::io_context io;
  boost::asio::co_spawn(io, await_commit(&response), [](const std::exception_ptr&) {});

  io.run();
  calls_->let_go();

  EXPECT_EQ(response.wait().path, target());
}

TEST_F(CallersMemory, ThatIsBorrowedIsFreeWhenTheAwaitOfItsCommitWasCancelled) {
  calls_->hold(Held::sync);
  const Tree tree = {{"weights", weights_}};
  const AsyncResponse response = save_async(target(), tree, borrowing(), *context_);
  boost::asio::io_context io;
  boost::asio::co_spawn(io, await_commit(&response), [](const std::exception_ptr&) {});

  io.run();

  EXPECT_TRUE(response.is_released());
  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::cancelled));
}

}  // namespace
}  // namespace cairn
