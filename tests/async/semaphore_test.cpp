// SPDX-License-Identifier: Apache-2.0
// Who is granted what, in which order, is in semaphore_order_test.cpp.
#include "async/internal/semaphore.hpp"

#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "async/internal/event.hpp"
#include "async/internal/thread_pool.hpp"
#include "async/parked.hpp"
#include "support/run.hpp"
#include "support/task_scope.hpp"

namespace cairn::async {
namespace {

using ::testing::ElementsAre;
using testing::eventually;
using testing::run;
using testing::TaskScope;

Awaitable<> hold(Semaphore semaphore, std::size_t count, int number, std::vector<int>* order, Event until) {
  const Permit permit = co_await semaphore.acquire(count);
  order->push_back(number);
  co_await until.wait();
}

TEST(Semaphore, GivesOnePermitUnlessAskedForMore) {
  Semaphore semaphore(3);

  const Permit one = run(semaphore.acquire());
  const Permit two = run(semaphore.acquire(2));

  EXPECT_EQ(one.count(), 1u);
  EXPECT_EQ(two.count(), 2u);
  EXPECT_EQ(semaphore.taken(), 3u);
  EXPECT_FALSE(semaphore.try_acquire());
}

TEST(Semaphore, NeverGivesAPartOfWhatIsAskedFor) {
  ThreadPool pool(2, "test");
  const Executor strand = make_strand(pool.executor());
  Semaphore semaphore(2);
  std::vector<int> order;
  Permit first = semaphore.try_acquire();
  TaskScope scope(strand);
  scope.spawn(hold(semaphore, 2, 0, &order, Event::happened()));
  ASSERT_TRUE(eventually([&] { return semaphore.waiting() == 1; }));
  EXPECT_EQ(semaphore.taken(),
            1u);  // Two readers that want two each would else wait for each other for ever.

  first.release();
  scope.wait();

  EXPECT_THAT(order, ElementsAre(0));
  EXPECT_EQ(semaphore.taken(), 0u);
}

TEST(Permit, MovesAndIsGivenBackOnce) {
  Semaphore semaphore(2);
  Permit first = semaphore.try_acquire();
  Permit second = semaphore.try_acquire();

  second = std::move(first);
  EXPECT_EQ(semaphore.taken(), 1u);
  second.release();
  second.release();

  EXPECT_EQ(semaphore.taken(), 0u);
  EXPECT_FALSE(second);
}

}  // namespace
}  // namespace cairn::async
