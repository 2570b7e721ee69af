// SPDX-License-Identifier: Apache-2.0
// Rank 0 has the last word in a session that only the ranks above can end.
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"

#include "coord/simulated_job.hpp"
#include "support/fails.hpp"

namespace cairn::coord {
namespace {

using namespace std::chrono_literals;
using testing::End;
using testing::Ends;
using testing::Fails;
using ::testing::HasSubstr;
using testing::Job;

Awaitable<> hear_word(std::shared_ptr<std::vector<Session>> joined, Ends ends, std::size_t rank) {
  Awaitable<std::string> word = joined->at(1).channel("word").broadcast("");
  joined.reset();  // The test may leave.
  End& end = ends->at(rank);
  try {
    end.text = co_await std::move(word);
  } catch (...) {
    end.failure = std::current_exception();
  }
  end.is_reached = true;
}

/// Joins two sessions on each rank, and hears what rank 0 says in the second.
Ends hear_rank_zero(Job& job, std::vector<std::shared_ptr<std::vector<Session>>>& joined) {
  auto ends = std::make_shared<std::vector<End>>(job.size());
  for (std::size_t rank = 0; rank < job.size(); ++rank) {
    joined.push_back(std::make_shared<std::vector<Session>>(job.coordinator(rank).join_several(
        std::vector<FailureScope>{FailureScope::job, FailureScope::root})));
  }
  for (std::size_t rank = 1; rank < job.size(); ++rank) {
    job.network().spawn(rank, 0ns, hear_word(joined[rank], ends, rank));
  }
  return ends;
}

TEST(LastWord, IsHeardThoughOthersHaveFailedOrAreLost) {
  Job job(4);  // Rank 3 is below rank 1.
  std::vector<std::shared_ptr<std::vector<Session>>> joined;
  const Ends ends = hear_rank_zero(job, joined);
  job.network().at(
      1ms, [&] { joined[2]->at(0).fail(std::make_exception_ptr(Error(Errc::io_failure, "no space"))); });
  job.network().at(2ms, [&] { job.network().crash(3); });
  job.network().run(60s);  // Longer than lost_after.
  EXPECT_NE(joined[0]->at(0).failure(), nullptr);

  job.network().at(0ms, [&] { static_cast<void>(joined[0]->at(1).channel("word").broadcast("aborted")); });
  job.network().run(10s);

  EXPECT_EQ(ends->at(1).text, "aborted");
  EXPECT_EQ(ends->at(2).text, "aborted");
}

TEST(LastWord, IsHeardBelowARankThatIsLost) {
  Job job(4);
  std::vector<std::shared_ptr<std::vector<Session>>> joined;
  const Ends ends = hear_rank_zero(job, joined);
  job.network().at(1ms, [&] { job.network().crash(1); });
  job.network().run(120s);  // Long enough for rank 0 to be lost, if it were silent.
  EXPECT_FALSE(ends->at(3).is_reached);

  job.network().at(0ms, [&] { static_cast<void>(joined[0]->at(1).channel("word").broadcast("committed")); });
  job.network().run(10s);

  EXPECT_EQ(ends->at(2).text, "committed");
  EXPECT_EQ(ends->at(3).text, "committed");
}

TEST(LastWord, IsHeardBelowARankThatIsLostAlsoWhenRankZeroHasLeft) {
  Job job(16);  // 0, 1, 3, 7, 15.
  std::vector<std::shared_ptr<std::vector<Session>>> joined;
  const Ends ends = hear_rank_zero(job, joined);
  job.network().at(1ms, [&] { job.network().crash(3); });
  job.network().at(2ms, [&] {
    Session& word = joined[0]->at(1);
    static_cast<void>(word.channel("word").broadcast("committed"));
    word.leave_later();
  });

  job.network().run(60s);

  for (const std::size_t rank : {7, 8, 15}) {
    EXPECT_EQ(ends->at(rank).text, "committed") << rank;
  }
}

TEST(LastWord, IsHeardBelowARankThatHasClosedItsCoordinator) {
  Job job(16);  // 0, 1, 3, 7, 15.
  std::vector<std::shared_ptr<std::vector<Session>>> joined;
  const Ends ends = hear_rank_zero(job, joined);
  job.network().at(1ms, [&] {
    for (Session& session : *joined[3]) {
      session.leave_later();
    }
    joined[3]->clear();
    job.close(3);
  });
  job.network().run(1s);
  EXPECT_FALSE(ends->at(7).is_reached);

  job.network().at(0ms, [&] { static_cast<void>(joined[0]->at(1).channel("word").broadcast("committed")); });
  job.network().run(1s);  // No time to be lost in.

  for (const std::size_t rank : {1, 2, 7, 8, 15}) {
    EXPECT_EQ(ends->at(rank).text, "committed") << rank;
  }
}

TEST(LastWord, IsHeardBelowARankThatHasLeftWithoutIt) {
  Job job(4);  // Rank 3 is below rank 1.
  std::vector<std::shared_ptr<std::vector<Session>>> joined;
  const Ends ends = hear_rank_zero(job, joined);
  job.network().at(1ms, [&] { joined[1]->at(1).leave(); });
  job.network().at(2ms, [&] { static_cast<void>(joined[0]->at(1).channel("word").broadcast("committed")); });

  job.network().run(1s);

  EXPECT_EQ(ends->at(3).text, "committed");
}

TEST(LastWord, IsMissedAtOnceWhereRankZeroRemembersNothing) {
  Job job(4);
  std::vector<std::shared_ptr<std::vector<Session>>> joined;
  const Ends ends = hear_rank_zero(job, joined);
  job.network().at(1ms, [&] {
    job.network().cut(0, 1);
    joined[0]->at(1).leave();
  });
  job.network().at(3ms, [&] { joined[1]->at(1).leave(); });

  job.network().run(2s);

  EXPECT_THAT([&] { ends->at(3).rethrow(); }, Fails(Errc::peer_failed, HasSubstr("rank 0 has left")));
}

TEST(LastWord, IsMissedAtOnceWhereRankZeroDoesSomethingElse) {
  for (const bool is_first : {true, false}) {
    Job job(4);
    std::vector<Session> of_zero;
    std::vector<std::shared_ptr<std::vector<Session>>> kept;
    const auto do_something_else = [&] {
      of_zero.push_back(job.coordinator(0).join({"rewinds to", "step 4"}));
    };
    if (is_first) {
      do_something_else();
    }
    const auto ends = std::make_shared<std::vector<End>>(job.size());
    for (std::size_t rank = 1; rank < job.size(); ++rank) {
      auto joined = std::make_shared<std::vector<Session>>(job.coordinator(rank).join_several(
          std::vector{FailureScope::job, FailureScope::root}, {"saves", "run/5"}));
      job.network().spawn(rank, 0ns, hear_word(joined, ends, rank));
      kept.push_back(std::move(joined));
    }
    job.network().run(1s);
    if (!is_first) {
      do_something_else();
      job.network().run(1s);
    }

    for (std::size_t rank = 1; rank < job.size(); ++rank) {
      EXPECT_THAT([&] { ends->at(rank).rethrow(); }, Fails(Errc::peer_failed, HasSubstr("rank 0 has left")))
          << rank;
    }
    EXPECT_TRUE(job.network().run(60s));  // Nobody says that it is there any more.
  }
}

TEST(LastWord, IsGivenUpWhenRankZeroIsLostToo) {
  Job job(4);
  std::vector<std::shared_ptr<std::vector<Session>>> joined;
  const Ends ends = hear_rank_zero(job, joined);
  job.network().at(1ms, [&] { job.network().crash(1); });
  job.network().at(1ms, [&] { job.network().crash(0); });

  job.network().run(70s);

  EXPECT_THAT([&] { ends->at(3).rethrow(); }, Fails(Errc::peer_lost, HasSubstr("rank 0 is lost")));
}

TEST(SessionThatIsLeftLater, PassesOnWhatOthersWaitFor) {
  Job job(4);
  std::vector<std::shared_ptr<std::vector<Session>>> joined;
  const Ends ends = hear_rank_zero(job, joined);
  job.network().at(1ms, [&] {
    joined[1]->at(1).leave_later();
    joined[1].reset();
  });
  job.network().run(1s);

  job.network().at(0ms, [&] { static_cast<void>(joined[0]->at(1).channel("word").broadcast("late")); });
  job.network().run(10s);

  EXPECT_EQ(ends->at(3).text, "late");
}

}  // namespace
}  // namespace cairn::coord
