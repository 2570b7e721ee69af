// SPDX-License-Identifier: Apache-2.0
// Strands that a caller drives, their lanes, and pools that grow.
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <gmock/gmock.h>

#include "cairn/async/awaitable.hpp"

#include "async/internal/event.hpp"
#include "async/internal/task_group.hpp"
#include "async/internal/thread_pool.hpp"
#include "async/parked.hpp"
#include "support/fails.hpp"
#include "support/run.hpp"
#include "support/sync_wait.hpp"

namespace cairn::async {
namespace {

using testing::eventually;
using testing::Fails;
using testing::start;

Awaitable<> note_thread(std::vector<std::thread::id>* threads, ThreadPool* pool) {
  threads->push_back(std::this_thread::get_id());
  std::function<void()> nothing = [] {};
  co_await offload(*pool, nothing);
  threads->push_back(std::this_thread::get_id());
}

TEST(DrivenStrand, RunsOnTheThreadThatDrivesIt) {
  ThreadPool pool(2, "test");
  const Executor strand = make_driven_strand(pool);
  std::vector<std::thread::id> threads;
  const Event ended = start(strand, note_thread(&threads, &pool));
  ended.on_complete([&](const std::exception_ptr&) { release_driver(strand); });

  drive(strand);

  EXPECT_TRUE(ended.has_happened());
  EXPECT_THAT(threads, ::testing::ElementsAre(std::this_thread::get_id(), std::this_thread::get_id()));
}

TEST(DrivenStrand, GoesOnOnThePoolWhenItsDriverHasLeft) {
  ThreadPool pool(2, "test");
  const Executor strand = make_driven_strand(pool);
  const Event ran;
  boost::asio::post(strand, [&] { release_driver(strand); });
  boost::asio::post(strand, [&] { pool.runs_this_thread() ? ran.set() : ran.fail(cancelled()); });

  drive(strand);

  EXPECT_NO_THROW(ran.get());
}

TEST(DrivenStrand, RunsOneThingAtATimeWhileItChangesHands) {
  for (int round = 0; round < 200; ++round) {
    ThreadPool pool(2, "test");
    const Executor strand = make_driven_strand(pool);
    std::atomic<int> inside{0};
    std::atomic<int> crowded{0};
    std::atomic<int> ended{0};
    const auto work = [&] {
      crowded += ++inside > 1 ? 1 : 0;
      --inside;
      ++ended;
    };
    std::jthread poster([&] {
      for (int i = 0; i < 100; ++i) {
        boost::asio::post(strand, work);
        if (i == 50) {
          release_driver(strand);
        }
      }
    });

    drive(strand);
    poster.join();

    EXPECT_TRUE(eventually([&] { return ended == 100; }));
    EXPECT_EQ(crowded, 0);
  }
}

TEST(DrivenStrand, LetsADriverGoThatComesLate) {
  ThreadPool pool(1, "test");
  const Executor strand = make_driven_strand(pool);
  const Event ran;
  boost::asio::post(strand, [&] { ran.set(); });
  release_driver(strand);
  EXPECT_FALSE(ran.wait_for(std::chrono::milliseconds(10)));

  drive(strand);

  ran.get();
}

TEST(CompanionStrand, RunsOnTheThreadThatDrivesTheOther) {
  ThreadPool pool(2, "test");
  const Executor strand = make_driven_strand(pool);
  const Executor companion = make_companion_strand(strand);
  std::vector<std::thread::id> threads;
  Event ended;
  boost::asio::post(strand, [&] {
    ended = start(companion, note_thread(&threads, &pool));
    ended.on_complete([&](const std::exception_ptr&) { release_driver(strand); });
  });

  drive(strand);

  EXPECT_TRUE(ended.has_happened());
  EXPECT_EQ(threads.front(), std::this_thread::get_id());
}

TEST(CompanionStrand, RunsOnThePoolWhileTheDriverIsBusy) {
  ThreadPool pool(2, "test");
  const Executor strand = make_driven_strand(pool);
  const Executor companion = make_companion_strand(strand);
  const Event entered;
  const Event ran;
  std::jthread other([&] {
    entered.get();
    boost::asio::post(companion, [&] { ran.set(); });
  });
  boost::asio::post(strand, [&] {
    entered.set();
    ran.get();  // Of the companion: it must not wait for this.
    release_driver(strand);
  });

  drive(strand);

  EXPECT_TRUE(ran.has_happened());
}

TEST(CompanionStrand, GivesTheOtherItsTurnAfterItsOwn) {
  ThreadPool pool(2, "test");
  const Executor strand = make_driven_strand(pool);
  const Executor companion = make_companion_strand(strand);
  bool is_inside = false;
  bool was_inside = true;
  boost::asio::post(strand, [&] {
    boost::asio::post(companion, [&] {
      is_inside = true;
      boost::asio::dispatch(strand, [&] {
        was_inside = is_inside;
        release_driver(strand);
      });
      is_inside = false;
    });
  });

  drive(strand);

  EXPECT_FALSE(was_inside) << "what the other strand runs could block this one";
}

TEST(CompanionStrand, RunsOneThingAtATimeWhileItChangesHands) {
  for (int round = 0; round < 200; ++round) {
    ThreadPool pool(2, "test");
    const Executor strand = make_driven_strand(pool);
    const Executor companion = make_companion_strand(strand);
    std::atomic<int> inside{0};
    std::atomic<int> crowded{0};
    std::atomic<int> ended{0};
    const auto work = [&] {
      crowded += ++inside > 1 ? 1 : 0;
      --inside;
      ++ended;
    };
    std::jthread poster([&] {
      for (int i = 0; i < 100; ++i) {
        boost::asio::post(companion, work);
        boost::asio::post(strand, [] {});
        if (i == 50) {
          release_driver(strand);
        }
      }
    });

    drive(strand);
    poster.join();

    EXPECT_TRUE(eventually([&] { return ended == 100; }));
    EXPECT_EQ(crowded, 0);
  }
}

Awaitable<> mark_after(Awaitable<> wait, Token token) {
  co_await std::move(wait);
  *token = 1;
}

TEST(Lane, DestroysWhatWouldRunAfterItWasClosed) {
  ThreadPool pool(2, "test");
  const Executor strand = make_strand(pool.executor());
  const Gate gate;
  const Event signal;
  Token token = make_token();
  const Event ended = start(make_lane(strand, gate), mark_after(signal.wait(), token));

  gate.close();
  signal.set();

  EXPECT_THAT([&] { ended.get(); }, Fails(Errc::closed));
  EXPECT_TRUE(eventually([&] { return token.use_count() == 1; }));
  EXPECT_EQ(*token, 0);
}

TEST(Lane, LetsTheRestOfTheStrandGoOn) {
  ThreadPool pool(2, "test");
  const Executor strand = make_strand(pool.executor());
  const Gate gate;
  gate.close();
  const Executor lane = make_lane(strand, gate);
  Token token = make_token();
  const Event dropped = start(lane, mark_after(Event::happened().wait(), token));

  const Event ended = start(strand, mark_after(Event::happened().wait(), token));

  ended.get();
  EXPECT_THAT([&] { dropped.get(); }, Fails(Errc::closed));
  EXPECT_EQ(*token, 1);
}

TEST(Lane, CountsWhatRunsAsAVisitor) {
  ThreadPool pool(2, "test");
  const Gate gate;
  const Executor lane = make_lane(make_strand(pool.executor()), gate);
  const Event inside;
  const Event go_on;
  boost::asio::post(lane, [&] {
    inside.set();
    go_on.get();
  });
  inside.get();

  gate.close();
  EXPECT_FALSE(gate.left().has_happened());
  go_on.set();

  gate.left().get();
}

Awaitable<> wait_for_two(Event first, Event second, Token token) {
  std::vector<Awaitable<>> children;
  children.push_back(mark_after(first.wait(), token));
  children.push_back(mark_after(second.wait(), token));
  co_await when_all(std::move(children));
  *token = 2;
}

TEST(Lane, DestroysACoroutineAfterItsChildren) {
  ThreadPool pool(2, "test");
  const Executor strand = make_strand(pool.executor());
  const Gate gate;
  const Event first;
  const Event second;
  Token token = make_token();
  const auto group = std::make_shared<TaskGroup>(make_lane(strand, gate));
  group->spawn(wait_for_two(first, second, token));

  gate.close();
  first.set();
  EXPECT_TRUE(group->is_running());
  second.set();
  group->wait();

  EXPECT_EQ(*token, 0);
}

TEST(GrowingPool, RunsWorkWhileAllItsThreadsAreBlocked) {
  const Event gate;
  const Event ran;
  ThreadPool pool(PoolThreads(1, 10), "test");
  for (int i = 0; i < 5; ++i) {
    pool.submit([&] { gate.get(); });
  }

  pool.submit([&] { ran.set(); });

  EXPECT_TRUE(ran.wait_for(std::chrono::seconds(10)));
  gate.set();
}

TEST(GrowingPool, RunsStrandsWhileOthersBlock) {
  const Event gate;
  const Event ran;
  ThreadPool pool(PoolThreads(1, 10), "test");
  for (int i = 0; i < 5; ++i) {
    boost::asio::post(make_strand(pool.executor()), [&] { gate.get(); });
  }

  boost::asio::post(make_strand(pool.executor()), [&] { ran.set(); });

  EXPECT_TRUE(ran.wait_for(std::chrono::seconds(10)));
  gate.set();
}

TEST(GrowingPool, GrowsNoFurtherThanAllowed) {
  const Event gate;
  const Event ran;
  ThreadPool pool(PoolThreads(1, 2), "test");
  for (int i = 0; i < 2; ++i) {
    pool.submit([&] { gate.get(); });
  }

  pool.submit([&] { ran.set(); });

  EXPECT_FALSE(ran.wait_for(std::chrono::milliseconds(20)));
  gate.set();
  ran.get();
}

}  // namespace
}  // namespace cairn::async
