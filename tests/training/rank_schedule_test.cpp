// SPDX-License-Identifier: Apache-2.0
// Leases of steps, without saves: three ranks whose notices the tests lose, hold back and count.
#include "training/rank_schedule.hpp"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/testing/local_ranks.hpp"

#include "coord/notice_wire.hpp"
#include "support/fails.hpp"
#include "support/manual_clock.hpp"
#include "training/rank_talk.hpp"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using testing::ManualClock;
using testing::NoticeWire;
using training::CallTime;
using training::RankSchedule;
using Steps = std::vector<std::uint64_t>;

constexpr std::size_t kLeased = 3;
const std::filesystem::path kRoot = "run";

/// For steps that take a second each on rank 0.
class Leases : public ::testing::Test {
 protected:
  struct Rank {
    NoticeWire* wire = nullptr;
    std::shared_ptr<coord::Coordinator> coordinator;
    ManualClock clock;
    std::unique_ptr<RankSchedule> schedule;
  };

  Leases() {
    for (std::size_t rank = 0; rank < kLeased; ++rank) {
      auto wire = std::make_unique<NoticeWire>(job_.transport(rank));
      ranks_[rank].wire = wire.get();
      ranks_[rank].coordinator = std::make_shared<coord::Coordinator>(std::move(wire));
    }
  }

  /// `guarded`: which rank has a guard, if any: in one process all would be sent the signal.
  void make(SavePolicy policy, std::uint64_t margin = 2, std::optional<std::size_t> guarded = {}) {
    policy_ = std::move(policy);
    for (std::size_t rank = 0; rank < kLeased; ++rank) {
      make_one(rank, margin, guarded);
    }
  }
  void make_one(std::size_t rank, std::uint64_t margin = 2, std::optional<std::size_t> guarded = {}) {
    Rank& each = ranks_[rank];
    each.schedule = nullptr;
    each.schedule =
        std::make_unique<RankSchedule>(policy_, guarded == rank ? &guard_ : nullptr, *each.coordinator,
                                       each.clock, margin, kRoot, store::system_random);
  }

  bool decide(std::size_t rank, std::uint64_t step, bool is_forced = false, Timeout deadline = {}) {
    SaveMoment moment;
    moment.step = step;
    moment.steps = saved_;
    if (rank == 0) {
      ranks_[0].clock.advance(step > come_ ? seconds(step - come_) : seconds(0));
      come_ = step;
      moment.now = CommitTime(ranks_[0].clock.now());
    }
    const CallTime time(ranks_[rank].clock, kRoot, step, deadline, {});
    return ranks_[rank].schedule->decide(moment, is_forced, time);
  }

  std::future<bool> begin_to_decide(std::size_t rank, std::uint64_t step, Timeout deadline = {}) {
    return std::async(std::launch::async,
                      [this, rank, step, deadline] { return decide(rank, step, false, deadline); });
  }

  /// Lets time pass on a rank until that has decided.
  void pass_time(std::size_t rank, const std::future<bool>& deciding) {
    while (deciding.wait_for(milliseconds(2)) != std::future_status::ready) {
      ranks_[rank].clock.advance(milliseconds(100));
    }
  }

  /// Returns whether they save it, which they say alike, when all have decided and heard of it.
  bool all_decide(std::uint64_t step) {
    std::vector<std::future<bool>> answers;
    for (std::size_t rank = 0; rank < kLeased; ++rank) {
      answers.push_back(begin_to_decide(rank, step));
    }
    const bool is_due = answers[0].get();
    EXPECT_EQ(answers[1].get(), is_due) << step;
    EXPECT_EQ(answers[2].get(), is_due) << step;
    settle();
    return is_due;
  }

  Steps all_decide(std::uint64_t begin, std::uint64_t end, std::uint64_t stride = 1) {
    Steps due;
    for (std::uint64_t step = begin; step < end; step += stride) {
      if (all_decide(step)) {
        due.push_back(step);
      }
    }
    return due;
  }

  /// Returns when what was said is heard, and what is said because of that: packets overtake none of the same rank.
  void settle() {
    for (int round = 0; round < 2; ++round) {
      std::vector<std::future<void>> all;
      for (Rank& rank : ranks_) {
        all.push_back(std::async(std::launch::async, [&rank] {
          const CallTime time(rank.clock, kRoot, std::nullopt, {}, {});
          training::RankTalk talk(*rank.coordinator, {}, time);
          talk.await(talk.channel("round").agree("a round", ""));
          talk.end();
        }));
      }
    }
  }

  [[nodiscard]] bool is_preempted() const {
    EXPECT_EQ(ranks_[1].schedule->is_preempted(), ranks_[0].schedule->is_preempted());
    EXPECT_EQ(ranks_[2].schedule->is_preempted(), ranks_[0].schedule->is_preempted());
    return ranks_[0].schedule->is_preempted();
  }

  [[nodiscard]] int sent() const {
    return ranks_[0].wire->sent() + ranks_[1].wire->sent() + ranks_[2].wire->sent();
  }

  /// Multiples of `interval`, as rank 0 alone says.
  static SavePolicy own_every(std::uint64_t interval) {
    return [interval](const SaveMoment& moment) { return moment.step % interval == 0; };
  }

  testing::LocalRanks job_{kLeased};
  const PreemptionGuard guard_;
  SavePolicy policy_ = save_when::asked();
  Rank ranks_[kLeased];
  Steps saved_;
  std::uint64_t come_ = 0;
};

TEST_F(Leases, AreMadeByAskingAboutEachStepOnceWithTheTimeAtWhichItComes) {
  std::vector<std::pair<std::uint64_t, CommitTime>> asked;
  make([&](const SaveMoment& moment) {
    asked.emplace_back(moment.step, moment.now);
    return false;
  });
  const CommitTime begin(ranks_[0].clock.now());

  all_decide(0, 10);

  ASSERT_EQ(asked.size(), 12u);  // Two more are leased.
  for (std::uint64_t step = 0; step < asked.size(); ++step) {
    EXPECT_EQ(asked[step].first, step);
    EXPECT_EQ(asked[step].second - begin, seconds(step));
  }
}

TEST_F(Leases, ShowPoliciesTheSaveThatWasNamedAndHasNotBegun) {
  std::vector<std::size_t> saved;
  make([&](const SaveMoment& moment) {
    saved.push_back(moment.steps.size());
    return moment.steps.empty() && moment.step >= 3;
  });

  EXPECT_THAT(all_decide(0, 4), ElementsAre(3));
  EXPECT_THAT(saved, ElementsAre(0, 0, 0, 0, 1, 1));
}

TEST_F(Leases, CostAPacketForEachRankAndStep) {
  make(own_every(7));
  all_decide(0, 2);
  const int before = sent();

  all_decide(2, 52);

  EXPECT_EQ(sent() - before, 50 * static_cast<int>(kLeased - 1));
}

TEST_F(Leases, AreNotMadeOfPoliciesOfStepsWhileNobodyIsSentASignal) {
  make(save_when::every_steps(7), 2, 1);

  EXPECT_THAT(all_decide(0, 20), ElementsAre(0, 7, 14));
  EXPECT_EQ(sent(), 0);
}

TEST_F(Leases, LetNobodyWaitWhoIsNotBeyondThem) {
  make(own_every(5));
  all_decide(0, 4);  // Up to step 5.

  for (const std::size_t rank : {1, 2}) {
    EXPECT_FALSE(decide(rank, 4));
    EXPECT_TRUE(decide(rank, 5));
  }
  std::future<bool> ahead = begin_to_decide(1, 6);
  EXPECT_FALSE(decide(0, 4));
  EXPECT_FALSE(ahead.get());
}

TEST_F(Leases, SayTheSameOfAStepThatIsAskedAboutAgain) {
  make(own_every(2));
  all_decide(0, 2);

  EXPECT_TRUE(all_decide(2));
  EXPECT_TRUE(all_decide(2));
}

TEST_F(Leases, AreOfStepsThatAreFarApart) {
  make(own_every(300));

  EXPECT_THAT(all_decide(0, 2), ElementsAre(0));
  EXPECT_THAT(all_decide(100, 2001, 100), ElementsAre(300, 600, 900, 1200, 1500, 1800));
  EXPECT_THAT(all_decide(2001, 2007), IsEmpty());  // Step 2100 is named.
  EXPECT_TRUE(all_decide(2150));                   // It is the first that is not below.
}

TEST_F(Leases, MayBeOfOneStepAhead) {
  make(own_every(3), 0);

  EXPECT_THAT(all_decide(0, 8), ElementsAre(0, 3, 6));
}

TEST_F(Leases, ThatAreLostAreMadeGoodByTheNextOne) {
  make(own_every(2));
  all_decide(0, 4);
  ranks_[1].wire->set_fate(NoticeWire::Fate::be_lost);
  EXPECT_TRUE(all_decide(4));
  ranks_[1].wire->set_fate(NoticeWire::Fate::arrive);

  EXPECT_THAT(all_decide(5, 12), ElementsAre(6, 8, 10));
}

TEST_F(Leases, ThatAreLostAreAskedForByWhoWaits) {
  make(own_every(2));
  all_decide(0, 4);
  ranks_[1].wire->set_fate(NoticeWire::Fate::be_lost);
  decide(0, 4);
  settle();
  ranks_[1].wire->set_fate(NoticeWire::Fate::arrive);
  decide(1, 4);
  decide(1, 5);

  std::future<bool> lost = begin_to_decide(1, 6);
  while (lost.wait_for(milliseconds(2)) != std::future_status::ready) {
    ranks_[1].clock.advance(milliseconds(100));
  }

  EXPECT_TRUE(lost.get());
}

TEST_F(Leases, ThatRank0DoesNotMakeAreWaitedForAsLongAsItAnswers) {
  make(own_every(2));
  all_decide(0, 4);

  std::future<bool> ahead = begin_to_decide(2, 8);
  for (int i = 0; i < 5; ++i) {  // Two of these make a rank lost.
    const int before = ranks_[0].wire->sent();
    ranks_[0].clock.advance(seconds(20));
    ranks_[2].clock.advance(seconds(20));
    while (ranks_[0].wire->sent() == before) {
      ahead.wait_for(milliseconds(2));
      ranks_[2].clock.advance(milliseconds(100));
    }
    settle();
  }
  for (std::uint64_t step = 4; step <= 8; ++step) {
    decide(0, step);
  }

  EXPECT_TRUE(ahead.get());
}

TEST_F(Leases, NameRank0WhenItIsSilent) {
  make(own_every(2));
  all_decide(0, 4);
  job_.cut(0);

  std::future<bool> ahead = begin_to_decide(2, 8);
  while (ahead.wait_for(milliseconds(2)) != std::future_status::ready) {
    ranks_[2].clock.advance(seconds(1));
  }

  EXPECT_THAT([&] { ahead.get(); },
              Fails(Errc::peer_failed, HasSubstr("rank 0 does not say whether to save step 8")));
}

TEST_F(Leases, AreWaitedForUntilTheDeadlineOfTheCall) {
  make(own_every(2));
  all_decide(0, 4);

  std::future<bool> ahead = begin_to_decide(2, 8, seconds(1));
  pass_time(2, ahead);

  EXPECT_THAT([&] { ahead.get(); },
              Fails(Errc::timed_out, HasSubstr("not done after 1.000 s; still waiting for rank 0")));
  EXPECT_THAT(all_decide(4, 9), ElementsAre(4, 6, 8));
}

TEST_F(Leases, BeginAnewAfterAFirstStepToWhichARankHasNotCome) {
  make(own_every(2));
  for (const std::size_t early : {0, 1}) {
    std::future<bool> deciding = begin_to_decide(early, 0, seconds(1));
    pass_time(early, deciding);
    EXPECT_THAT([&] { deciding.get(); }, Fails(Errc::timed_out, HasSubstr("still waiting for rank")));
    for (std::size_t rank = 0; rank < kLeased; ++rank) {
      if (rank != early) {
        EXPECT_THAT([&] { decide(rank, 0); }, Fails(Errc::peer_failed, HasSubstr("not done after 1.000 s")));
      }
    }
  }

  EXPECT_THAT(all_decide(0, 5), ElementsAre(0, 2, 4));
}

TEST_F(Leases, OfALineThatRank0HasGivenUpAreGivenUpByThoseWhoAskForMore) {
  make(own_every(2));
  all_decide(0, 4);
  ranks_[0].schedule->go_back();
  std::future<bool> first = begin_to_decide(0, 8);

  std::future<bool> second = begin_to_decide(1, 8);
  std::future<bool> third = begin_to_decide(2, 8);
  pass_time(1, second);
  pass_time(2, third);

  EXPECT_TRUE(first.get() && second.get() && third.get());
  EXPECT_THAT(all_decide(9, 13), ElementsAre(10, 12));
}

TEST_F(Leases, WaitForARankThatBeginsLate) {
  policy_ = own_every(2);
  make_one(0);
  make_one(2);
  std::future<bool> first = begin_to_decide(0, 0);
  std::future<bool> third = begin_to_decide(2, 0);
  make_one(1);

  EXPECT_TRUE(decide(1, 0));
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(third.get());
  EXPECT_THAT(all_decide(1, 5), ElementsAre(2, 4));
}

TEST_F(Leases, ThrowWhatAPolicyThrowsOfAStepWhenItHasCome) {
  make([](const SaveMoment& moment) {
    if (moment.step == 5) {
      throw std::runtime_error("no idea");
    }
    return moment.step == 6;
  });

  EXPECT_THAT(all_decide(0, 5), IsEmpty());
  EXPECT_THAT([&] { decide(0, 5); }, Fails(Errc::handler_failed, HasSubstr("no idea")));
  settle();
  for (const std::size_t rank : {1, 2}) {
    EXPECT_THAT([&] { decide(rank, 5); },
                Fails(Errc::peer_failed, AllOf(HasSubstr("rank 0: "), HasSubstr("no idea"))));
  }
  EXPECT_THAT(all_decide(6, 10), ElementsAre(6));
}

TEST_F(Leases, GoOnWhateverBecomesOfSaves) {
  make(own_every(2));
  all_decide(0, 3);
  ranks_[0].schedule->end_save(2, std::nullopt);
  ranks_[1].schedule->end_save(0, seconds(1));
  ranks_[2].schedule->end_save(2, seconds(3));

  EXPECT_THAT(all_decide(3, 9), ElementsAre(4, 6, 8));
}

TEST_F(Leases, OfAnEarlierLineAreNotHeard) {
  make(own_every(4));
  all_decide(0, 7);  // Step 8 is named.
  ranks_[1].wire->set_fate(NoticeWire::Fate::be_held);
  decide(0, 7);
  settle();
  for (Rank& rank : ranks_) {
    rank.schedule->go_back();
  }
  policy_ = own_every(3);

  EXPECT_FALSE(all_decide(2));
  ranks_[1].wire->release();
  EXPECT_THAT(all_decide(3, 14), ElementsAre(3, 6, 9, 12));
}

/// A signal that one rank is sent.
class Signals : public Leases {
 protected:
  static SavePolicy on_signal() { return save_when::preempted(); }

  /// All come to step `signalled`, at which `rank` is sent one, and go on until they save. Returns what they save.
  std::uint64_t step_after_signal(std::uint64_t signalled, std::uint64_t stride = 1) {
    all_decide(0, signalled, stride);
    EXPECT_FALSE(is_preempted());
    std::raise(SIGTERM);
    for (std::uint64_t step = signalled;; step += stride) {
      if (all_decide(step)) {
        EXPECT_TRUE(is_preempted());
        EXPECT_FALSE(all_decide(step + stride));  // Once.
        return step;
      }
    }
  }
};

/// Which rank is sent a signal, and what kind of policy there is.
class SignalsOfAnyRank : public Signals,
                         public ::testing::WithParamInterface<std::tuple<std::size_t, bool>> {};

TEST_P(SignalsOfAnyRank, NameAStepSoonThatNoneHasPassed) {
  const auto& [rank, asks_time] = GetParam();
  make(asks_time ? save_when::any_of({own_every(1000), on_signal()}) : on_signal(), 3, rank);
  if (asks_time) {
    all_decide(0);
  }

  EXPECT_THAT(step_after_signal(6), AllOf(Gt(6u), Le(6u + 3 + 2)));
}

TEST_P(SignalsOfAnyRank, NameAStepOfTheNextLineWhereTheTrainingGoesBackBeforeItHasCome) {
  const auto& [rank, asks_time] = GetParam();
  make(asks_time ? save_when::any_of({own_every(1000), on_signal()}) : on_signal(), 4, rank);
  all_decide(101, 104);
  std::raise(SIGTERM);
  EXPECT_THAT(all_decide(104, 107), IsEmpty());
  for (Rank& each : ranks_) {
    each.schedule->go_back();
  }

  const Steps due = all_decide(10, 30);

  ASSERT_EQ(due.size(), 1u);
  EXPECT_LE(due.front(), 10u + 4 + 2);
}

INSTANTIATE_TEST_SUITE_P(Ranks, SignalsOfAnyRank,
                         ::testing::Combine(::testing::Values(0, 1, 2), ::testing::Bool()));

TEST_F(Signals, NameTheNextStepWithAMarginOfOne) {
  make(on_signal(), 1, 2);

  EXPECT_THAT(step_after_signal(3), AllOf(Gt(3u), Le(6u)));
}

TEST_F(Signals, NameOneOfTheStepsThatAreAskedAbout) {
  make(on_signal(), 2, 1);

  EXPECT_THAT(step_after_signal(40, 10), AllOf(Gt(40u), Le(90u)));
}

TEST_F(Signals, NameAStepBeyondTheRankThatIsFarthest) {
  make(on_signal(), 2, 1);
  all_decide(0, 3);
  decide(2, 70);  // Far ahead.
  std::raise(SIGTERM);
  decide(1, 3);
  settle();
  decide(0, 3);  // It has heard of all.
  settle();

  EXPECT_FALSE(decide(0, 70));
  EXPECT_FALSE(decide(1, 70));
  EXPECT_TRUE(all_decide(71));
}

TEST_F(Signals, KeepRanksFromGoingOnAheadOfRank0) {
  make(on_signal(), 2, 1);
  all_decide(0, 3);
  std::raise(SIGTERM);
  decide(1, 3);
  settle();

  EXPECT_FALSE(decide(2, 3) || decide(2, 4));
  std::future<bool> ahead = begin_to_decide(2, 5);
  EXPECT_FALSE(decide(0, 3) || decide(0, 4));

  EXPECT_TRUE(decide(0, 5));
  EXPECT_TRUE(ahead.get());
}

TEST_F(Signals, NameAnotherStepWhereThatSaveHasFailed) {
  make(on_signal(), 2, 0);
  const std::uint64_t first = step_after_signal(2);
  ranks_[0].schedule->end_save(first, std::nullopt);
  ranks_[0].schedule->end_save(first, std::nullopt);

  EXPECT_EQ(all_decide(first + 2, first + 20).size(), 1u);
  EXPECT_TRUE(is_preempted());
}

TEST_F(Signals, NameRanksThatDoNotSayHowFarTheyHaveCome) {
  make(on_signal(), 2, 0);
  all_decide(0, 3);
  ranks_[2].wire->set_fate(NoticeWire::Fate::be_lost);
  std::raise(SIGTERM);
  decide(0, 3);
  settle();

  ranks_[0].clock.advance(seconds(31));

  EXPECT_THAT([&] { decide(0, 4); }, Fails(Errc::peer_failed, HasSubstr("rank 2: no answer")));
}

TEST_F(Signals, AreHeardByARankThatBeginsLate) {
  policy_ = on_signal();
  make_one(0, 2, 0);
  make_one(1);
  std::raise(SIGTERM);
  for (std::uint64_t step = 0; step < 5; ++step) {
    EXPECT_FALSE(decide(0, step));
    settle();
    EXPECT_FALSE(decide(1, step));
  }
  make_one(2);
  for (std::uint64_t step = 0; step < 5; ++step) {
    EXPECT_FALSE(decide(2, step));
  }

  EXPECT_EQ(all_decide(5, 15).size(), 1u);
}

TEST_F(Signals, OfAnEarlierTrainingInTheSameRootBindNobody) {
  make(on_signal(), 2, 0);
  all_decide(0, 3);
  std::raise(SIGTERM);
  ranks_[1].wire->set_fate(NoticeWire::Fate::be_held);
  ranks_[2].wire->set_fate(NoticeWire::Fate::be_held);
  decide(0, 3);
  settle();
  make(on_signal());
  ranks_[1].wire->release();
  ranks_[2].wire->release();
  settle();

  EXPECT_THAT(all_decide(0, 20), IsEmpty());
  EXPECT_FALSE(is_preempted());
}

}  // namespace
}  // namespace cairn
