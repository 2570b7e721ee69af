// SPDX-License-Identifier: Apache-2.0
// Ranks that are lost, and what becomes of the sessions after that.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "coord/simulated_job.hpp"
#include "support/fails.hpp"

namespace cairn::coord {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using testing::Ends;
using testing::Fails;
using ::testing::HasSubstr;
using testing::Job;
using testing::Shared;

/// Twice: the second time needs each rank, also one that nobody waits to hear from.
Awaitable<std::string> agree_twice(Shared session, std::size_t /*rank*/) {
  Channel channel = session->channel("it");
  co_await channel.agree("first", "same");
  co_await channel.agree("second", "same");
  co_return "agreed";
}

/// Of all ranks but the lost one.
void expect_lost(const Ends& ends, std::size_t lost, std::chrono::nanoseconds latest) {
  for (std::size_t rank = 0; rank < ends->size(); ++rank) {
    if (rank != lost) {
      const testing::End& end = (*ends)[rank];
      EXPECT_TRUE(end.is_reached) << rank;
      EXPECT_THAT([&] { end.rethrow(); },
                  Fails(Errc::peer_lost, HasSubstr(fmt::format("rank {} is lost", lost))))
          << rank;
      EXPECT_LE(end.time, latest) << rank;
    }
  }
}

TEST(ALostRank, EndsTheNextSessionsAtOnce) {
  for (const std::size_t lost : {0, 1, 2, 9}) {  // Also between others: fan_out is 2.
    Job job(10);
    job.network().at(1us, [&] { job.network().crash(lost); });
    const Ends first = job.start(agree_twice);
    job.network().run();
    expect_lost(first, lost, 32s);

    for (int again = 0; again < 2; ++again) {
      const auto begin = job.network().now();
      const Ends next = job.start_without(lost, agree_twice);
      job.network().run();
      expect_lost(next, lost, begin + 100ms);
    }
  }
}

TEST(ALostRank, IsNamedWithTheTimeSinceAndWhatToDo) {
  Job job(3);
  job.network().at(1us, [&] { job.network().crash(2); });
  job.start(agree_twice);
  job.network().run();
  job.network().at(10s, [] {});
  job.network().run();

  const Ends next = job.start_without(2, agree_twice);
  job.network().run();

  EXPECT_THAT(
      [&] { (*next)[1].rethrow(); },
      Fails(Errc::peer_lost, AllOf(HasSubstr("rank 2 is lost, as was found 1"), HasSubstr("start again"))));
}

TEST(ALostRank, IsMissedThoughItDiedBetweenSessions) {
  for (const std::size_t lost : {0, 1, 2, 9}) {
    Job job(10);
    EXPECT_THAT(Job::texts(job.run(agree_twice)), Each("agreed"));
    job.network().crash(lost);
    const auto begin = job.network().now();

    const Ends ends = job.start_without(lost, agree_twice);
    job.network().run();

    expect_lost(ends, lost, begin + 32s);
  }
}

TEST(ALostRank, IsNoneThatComesLateAndAnswers) {
  Job job(10);
  const Ends ends = job.start_without(2, agree_twice);
  job.start(2, 600s, agree_twice, ends);
  job.network().run();

  EXPECT_THAT(Job::texts(*ends), Each("agreed"));
}

TEST(ALostRank, TakesPartAgainWhenItIsHeard) {
  for (const std::size_t lost : {0, 1, 2, 9}) {
    Job job(10);
    const Ends first = job.start_without(6, agree_twice);  // It keeps the others.
    job.start(6, 2s, agree_twice, first);
    job.network().at(1s, [&] { job.network().stop(lost); });
    job.network().run(100s);
    expect_lost(first, lost, 35s);
    const Ends second = job.start_without(lost, agree_twice);  // While it is stopped.
    job.network().run(1s);
    expect_lost(second, lost, 102s);

    job.network().at(0s, [&] { job.network().go_on(lost); });
    job.start(lost, 1s, agree_twice, second);  // It comes to the one that has failed without it.
    job.network().run();

    EXPECT_NE((*second)[lost].failure, nullptr);
    EXPECT_THAT(Job::texts(job.run(agree_twice)), Each("agreed"));
  }
}

TEST(ALostRank, IsOneThatIsLostASecondTime) {
  Job job(4);
  for (int round = 0; round < 2; ++round) {
    const Ends ends = job.start_without(3, agree_twice);
    job.start(3, 2s, agree_twice, ends);
    job.network().at(1s, [&] { job.network().stop(1); });
    job.network().at(50s, [&] { job.network().go_on(1); });
    const auto begin = job.network().now();
    job.network().run();
    expect_lost(ends, 1, begin + 35s);
    EXPECT_THAT(Job::texts(job.run(agree_twice)), Each("agreed"));
  }
}

TEST(ARankWithoutAThread, IsWaitedForUntilItJoins) {
  testing::SimulatedOptions lent;
  lent.needs_threads = true;
  Job job(3, CoordinatorOptions(), lent);
  const Ends ends = job.start_without(2, agree_twice);
  job.network().at(0s, [&] { job.network().stop(2); });
  job.network().at(100s, [&] { job.network().go_on(2); });
  job.start(2, 101s, agree_twice, ends);
  job.network().run();

  EXPECT_THAT(Job::texts(*ends), Each("agreed"));
}

TEST(ALostRank, IsNotAskedForWhileNobodyWaits) {
  Job job(10);
  EXPECT_THAT(Job::texts(job.run(agree_twice)), Each("agreed"));
  const std::uint64_t said = job.network().packets();

  job.network().at(1000s, [] {});
  job.network().run();

  EXPECT_EQ(job.network().packets(), said);
}

}  // namespace
}  // namespace cairn::coord
