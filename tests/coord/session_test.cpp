// SPDX-License-Identifier: Apache-2.0
#include "cairn/coord/session.hpp"

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"

#include "coord/internal/of_peer.hpp"
#include "coord/simulated_job.hpp"
#include "support/fails.hpp"

namespace cairn::coord {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::End;
using testing::Ends;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Job;
using testing::Shared;

std::string text_of(std::size_t rank) {
  return fmt::format("{}.", rank);
}

std::string all_texts(std::size_t ranks) {
  std::string all;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    all += text_of(rank);
  }
  return all;
}

std::string joined(std::vector<std::string> texts) {
  return fmt::format("{}", fmt::join(texts, ""));
}

Awaitable<std::string> gather(Shared session, std::size_t rank) {
  std::vector<std::string> texts = co_await session->channel("it").gather(text_of(rank));
  co_return joined(std::move(texts));
}

Awaitable<std::string> reduce_and_broadcast(Shared session, std::size_t rank) {
  Channel channel = session->channel("it");
  std::string all = co_await channel.reduce(text_of(rank), joined);
  co_return co_await channel.broadcast(std::move(all));
}

class Sizes : public ::testing::TestWithParam<std::pair<std::size_t, std::size_t>> {
 protected:
  Job job_{GetParam().first, GetParam().second};
};

TEST_P(Sizes, GatherBringsAllTextsToRankZeroInTheirOrder) {
  const std::vector<std::string> texts = Job::texts(job_.run(gather));

  EXPECT_EQ(texts.front(), all_texts(job_.size()));
  EXPECT_THAT(std::vector(texts.begin() + 1, texts.end()), Each(IsEmpty()));
}

TEST_P(Sizes, BroadcastBringsWhatWasMergedToAll) {
  std::vector<std::string> texts = Job::texts(job_.run(reduce_and_broadcast));

  EXPECT_THAT(texts, Each(texts.front()));
  EXPECT_EQ(texts.front().size(), all_texts(job_.size()).size());
  EXPECT_EQ(Job::texts(job_.run(reduce_and_broadcast)), texts);  // Whoever comes first this time.
}

Awaitable<std::string> scatter(Shared session, std::size_t rank) {
  std::vector<std::string> texts;
  if (rank == 0) {
    texts = co_await session->channel("sizes").gather("");
    for (std::size_t i = 0; i < texts.size(); ++i) {
      texts[i] = text_of(i);
    }
  } else {
    co_await session->channel("sizes").gather("");
  }
  co_return co_await session->channel("parts").scatter(std::move(texts));
}

TEST_P(Sizes, ScatterGivesEachRankItsOwnText) {
  const std::vector<std::string> texts = Job::texts(job_.run(scatter));

  for (std::size_t rank = 0; rank < job_.size(); ++rank) {
    EXPECT_EQ(texts[rank], text_of(rank));
  }
}

/// Each rank tells all others two texts, and hears what they tell it.
Awaitable<std::string> send_to_all(Shared session, std::size_t rank) {
  Channel sizes = session->channel("size");
  std::string size = co_await sizes.reduce(".", joined);
  size = co_await sizes.broadcast(std::move(size));
  const Channel channel = session->channel("it");
  std::vector<std::size_t> others;
  for (std::size_t other = 0; other < size.size(); ++other) {
    if (other != rank) {
      others.push_back(other);
    }
  }
  const std::string data = text_of(rank);
  channel.send(others, "a", std::as_bytes(std::span(data)));
  channel.send(others, "b");
  std::map<std::size_t, std::string> heard;
  for (std::size_t i = 0; i < 2 * others.size(); ++i) {
    const Message message = co_await channel.receive();
    heard[message.from] += message.text;
  }
  std::string all;
  for (const auto& [from, text] : heard) {
    all += text;
  }
  co_return all;
}

TEST_P(Sizes, SendBringsTextsPastTheTreeInTheirOrder) {
  const std::vector<std::string> texts = Job::texts(job_.run(send_to_all));

  for (std::size_t rank = 0; rank < job_.size(); ++rank) {
    std::string expected;
    for (std::size_t other = 0; other < job_.size(); ++other) {
      expected += other == rank ? std::string() : "a" + text_of(other) + "b";
    }
    EXPECT_EQ(texts[rank], expected);
  }
}

Awaitable<std::string> receive_one(Shared session, std::size_t /*rank*/) {
  const Channel channel = session->channel("it");
  const Message message = co_await channel.receive();
  co_return std::string(message.text);
}

TEST(PendingReceive, EndsWhenAnotherRankFails) {
  Job job(3);
  const auto ends = std::make_shared<std::vector<End>>(job.size());
  for (std::size_t rank = 1; rank < job.size(); ++rank) {
    job.start(rank, 0s, receive_one, ends);
  }
  job.network().run(1s);
  const Session failing = job.coordinator(0).join();
  job.network().at(0ms, [&] { failing.fail(std::make_exception_ptr(Error(Errc::io_failure, "no disk"))); });
  job.network().run(1s);

  for (std::size_t rank = 1; rank < job.size(); ++rank) {
    EXPECT_THAT([&] { ends->at(rank).rethrow(); }, Fails(Errc::peer_failed, HasSubstr("rank 0: no disk")));
  }
}

Awaitable<std::string> agree(Shared session, std::size_t rank) {
  Channel channel = session->channel("it");
  co_await channel.agree("paths", "same");
  co_await channel.agree("names", rank % 5 == 3 ? "other" : "same");
  co_return "agreed";
}

TEST_P(Sizes, AgreeRefusesOnAllRanksWhatIsNotTheSame) {
  const std::vector<End> ends = job_.run(agree);

  for (const End& end : ends) {
    if (job_.size() <= 3) {
      EXPECT_EQ(end.text, "agreed");
    } else {
      EXPECT_THAT(
          [&] { end.rethrow(); },
          Fails(Errc::invalid_argument,
                ::testing::AllOf(HasSubstr("names: ranks 0, 1"),
                                 ::testing::ContainsRegex(" have 'same', ranks? 3.* ha(s|ve) 'other'"))));
    }
  }
}

Awaitable<std::string> agree_and_end(Shared session, std::size_t rank) {
  try {
    co_await session->channel("it").agree("names", rank == 1 ? "other" : "same");
  } catch (...) {
    session->fail(std::current_exception());  // As whoever leads a session does.
    throw;
  }
  co_return "agreed";
}

Awaitable<> listen(Awaitable<> agreeing, std::shared_ptr<End> end) {
  try {
    co_await std::move(agreeing);
  } catch (...) {
    end->failure = std::current_exception();
  }
  end->is_reached = true;
}

TEST(Agree, IsRefusedAlikeForARankThatListensOnceTheOthersHaveEnded) {
  Job job(3);
  const Session slow = job.coordinator(1).join();
  Awaitable<> agreeing = slow.channel("it").agree("names", "other");
  const auto ends = std::make_shared<std::vector<End>>(job.size());
  for (const std::size_t rank : {0, 2}) {
    job.start(rank, 0s, agree_and_end, ends);
  }
  job.network().run(1s);
  job.close(0);
  job.network().run(1s);
  const auto end = std::make_shared<End>();
  job.network().spawn(1, 0s, listen(std::move(agreeing), end));
  job.network().run(1s);

  EXPECT_TRUE(end->is_reached);
  for (const End& each : {ends->at(0), *end, ends->at(2)}) {
    EXPECT_THAT(
        [&] { each.rethrow(); },
        Fails(Errc::invalid_argument, HasSubstr("names: ranks 0 and 2 have 'same', rank 1 has 'other'")));
  }
}

Awaitable<std::string> cross(Shared session, std::size_t rank) {
  Channel one = session->channel("one");
  Channel other = session->channel("other");
  Awaitable<std::string> first = rank % 2 == 0 ? one.broadcast("1") : other.broadcast("2");
  Awaitable<std::string> second = rank % 2 == 0 ? other.broadcast("2") : one.broadcast("1");
  std::string text = co_await std::move(first);
  text += co_await std::move(second);
  co_return text;
}

TEST_P(Sizes, ChannelsDoNotWaitForEachOther) {
  for (const std::string& text : Job::texts(job_.run(cross))) {
    EXPECT_THAT(text, ::testing::AnyOf("12", "21"));
  }
}

INSTANTIATE_TEST_SUITE_P(Session, Sizes,
                         ::testing::Values(std::pair<std::size_t, std::size_t>(1, 16), std::pair(2, 16),
                                           std::pair(3, 1), std::pair(4, 2), std::pair(17, 16),
                                           std::pair(100, 3)),
                         [](const auto& each) {
                           return fmt::format("{}_ranks_of_{}", each.param.first, each.param.second);
                         });

Awaitable<std::string> fail_at_five(Shared session, std::size_t rank) {
  if (rank == 5) {
    session->fail(std::make_exception_ptr(Error(Errc::io_failure, "the disk of five")));
  }
  co_return co_await reduce_and_broadcast(session, rank);
}

TEST(FailedSession, TellsAllWhichRankFailedAndWhy) {
  Job job(40);
  const std::vector<End> ends = job.run(fail_at_five);

  for (std::size_t rank = 0; rank < job.size(); ++rank) {
    const bool is_own = rank == 5;
    EXPECT_THAT([&] { ends[rank].rethrow(); },
                Fails(is_own ? Errc::io_failure : Errc::peer_failed,
                      AllOf(HasSubstr("the disk of five"), HasSubstr(is_own ? "" : "rank 5: "))));
    EXPECT_LT(ends[rank].time, 20ms);  // Twelve neighbours at most are between two ranks.
  }
}

TEST(FailedSession, KeepsItsFirstFailure) {
  testing::SimulatedNetwork network(1);
  Coordinator coordinator(network.transport(0));
  Session session = coordinator.join();
  session.fail(std::make_exception_ptr(std::runtime_error("first")));
  session.fail(std::make_exception_ptr(std::runtime_error("second")));

  EXPECT_EQ(describe(session.failure()), "first");
  session.leave();
}

Awaitable<std::string> wait_for_failure(Shared session, std::size_t rank) {
  if (rank == 3) {
    session->fail(std::make_exception_ptr(std::runtime_error("a program's own")));
  }
  co_await session->failed();
  co_return "not reached";
}

TEST(FailedSession, EndsWorkThatWaitsForIt) {
  Job job(7);
  const std::vector<std::string> texts = Job::texts(job.run(wait_for_failure));

  EXPECT_EQ(texts[3], "a program's own");
  EXPECT_THAT(texts[6], HasSubstr("rank 3: a program's own"));
}

Awaitable<std::string> merge_badly(Shared session, std::size_t rank) {
  const auto merge = [](std::vector<std::string>) -> std::string {
    throw std::runtime_error("cannot merge");
  };
  Channel channel = session->channel("it");
  co_await channel.reduce(text_of(rank), merge);
  co_return co_await channel.broadcast("");
}

TEST(FailedSession, IsOneWhoseMergeThrows) {
  Job job(9);

  EXPECT_THAT(Job::texts(job.run(merge_badly)), Each(HasSubstr("cannot merge")));
}

Awaitable<std::string> two_rounds(Shared session, std::size_t rank) {
  Channel channel = session->channel("it");
  co_await channel.agree("first", "same");
  co_await channel.agree("second", "same");
  co_return fmt::format("{} agreed", session->number() + 0 * rank);
}

TEST(LostRank, FailsTheSessionOnAllOthersInTime) {
  for (const std::size_t lost : {0, 1, 2, 9}) {
    Job job(10);
    const Ends ends = job.start_without(6, two_rounds);  // It keeps the others.
    job.start(6, 2s, two_rounds, ends);
    job.network().at(1s, [&] { job.network().crash(lost); });
    job.network().run();

    for (std::size_t rank = 0; rank < job.size(); ++rank) {
      if (rank != lost) {
        const std::string culprit = fmt::format("rank {} is lost", lost);
        EXPECT_THAT([&] { (*ends)[rank].rethrow(); }, Fails(Errc::peer_lost, HasSubstr(culprit))) << rank;
        EXPECT_LE((*ends)[rank].time, 1s + 30s + 2s);
      }
    }
  }
}

TEST(LateRank, IsNotLost) {
  Job job(8);
  const Ends ends = job.start_without(2, two_rounds);
  job.start(2, 600s, two_rounds, ends);
  job.network().run();

  EXPECT_THAT(Job::texts(*ends), Each("0 agreed"));
}

Awaitable<std::string> hear(Shared session, std::size_t rank) {
  co_return co_await session->channel("it").broadcast(rank == 0 ? "news" : "");
}

TEST(LateRank, PassesOnWhatOthersWaitFor) {
  Job job(7);
  const Ends ends = job.start_without(1, hear);
  job.start(1, 600s, hear, ends);
  job.network().run();

  EXPECT_THAT(Job::texts(*ends), Each("news"));
  EXPECT_LT((*ends)[3].time, 1s);  // Rank 1 is between it and rank 0.
}

TEST(RankThatLeft, IsNotLost) {
  testing::SimulatedNetwork network(2);
  Coordinator first(network.transport(0));
  Coordinator second(network.transport(1));
  Session stays = first.join();
  Session goes = second.join();
  network.run(5s);
  goes.leave();
  network.run(100s);

  EXPECT_EQ(stays.failure(), nullptr);
  stays.leave();
}

TEST(StoppedRank, LearnsWhatHappenedAndTakesPartInTheNextSession) {
  Job job(8);
  const Ends ends = job.start_without(6, two_rounds);  // It keeps the others.
  job.start(6, 2s, two_rounds, ends);
  job.network().at(1s, [&] { job.network().stop(3); });
  job.network().at(100s, [&] { job.network().go_on(3); });
  job.network().run();

  EXPECT_THAT([&] { (*ends)[0].rethrow(); }, Fails(Errc::peer_lost, HasSubstr("rank 3 is lost")));
  EXPECT_THAT([&] { (*ends)[3].rethrow(); }, Fails(Errc::peer_lost, HasSubstr("rank 3 is lost")));
  EXPECT_THAT(Job::texts(job.run(two_rounds)), Each("2 agreed"));
}

TEST(LateRank, CanBeGivenATimeToCome) {
  testing::SimulatedNetwork network(2);
  CoordinatorOptions options;
  options.join_timeout = 5s;
  Coordinator first(network.transport(0), options);
  Coordinator second(network.transport(1), options);

  Session session = first.join();
  network.run(100s);

  EXPECT_THAT([&] { std::rethrow_exception(session.failure()); },
              Fails(Errc::peer_failed, HasSubstr("rank 1 has not joined")));
  session.leave();
}

Awaitable<std::string> leave_at_once(Shared session, std::size_t rank) {
  if (rank == 1) {
    co_return "left";
  }
  co_return co_await reduce_and_broadcast(session, rank);
}

TEST(RankThatLeaves, FailsThoseThatNeedIt) {
  Job job(4);
  const std::vector<End> ends = job.run(leave_at_once);

  EXPECT_EQ(ends[1].text, "left");
  EXPECT_THAT([&] { ends[0].rethrow(); }, Fails(Errc::peer_failed, HasSubstr("rank 1 has left")));
  EXPECT_THAT([&] { ends[3].rethrow(); }, Fails(Errc::peer_failed, HasSubstr("rank 1 has left")));
}

TEST(DroppedSession, FailsOnTheOthers) {
  testing::SimulatedNetwork network(2);
  Coordinator first(network.transport(0));
  Coordinator second(network.transport(1));
  Session kept = first.join();
  { const Session dropped = second.join(); }
  network.run(1s);

  EXPECT_THAT([&] { std::rethrow_exception(kept.failure()); },
              Fails(Errc::peer_failed, AllOf(HasSubstr("rank 1: "), HasSubstr("closed"))));
}

TEST(ClosedCoordinator, FailsItsSessionsHereAndThere) {
  testing::SimulatedNetwork network(2);
  Coordinator first(network.transport(0));
  auto second = std::make_unique<Coordinator>(network.transport(1));
  Session kept = first.join();
  Session closed = second->join();
  second.reset();
  network.run(1s);

  EXPECT_THAT([&] { std::rethrow_exception(closed.failure()); }, Fails(Errc::closed));
  EXPECT_THAT([&] { std::rethrow_exception(kept.failure()); },
              Fails(Errc::peer_failed, HasSubstr("rank 1: ")));
}

TEST(CommonFailure, IsTheSameOnAllRanks) {
  Job job(5);
  std::vector<Session> joined;
  for (std::size_t rank = 0; rank < job.size(); ++rank) {
    joined.push_back(job.coordinator(rank).join());
  }

  job.network().at(1ms, [&] { joined[0].fail_together(Error(Errc::superseded, "there is a newer one")); });
  job.network().run(1s);

  for (const Session& each : joined) {
    EXPECT_THAT([&] { std::rethrow_exception(each.failure()); },
                Fails(Errc::superseded, ::testing::StartsWith("there is a newer one")));
  }
}

TEST(CommonFailure, IsThrownOnTheRankThatRefuses) {
  Job job(3);
  std::vector<Session> joined;
  for (std::size_t rank = 0; rank < job.size(); ++rank) {
    joined.push_back(job.coordinator(rank).join());
  }

  job.network().at(1ms, [&] {
    EXPECT_THAT([&] { joined[0].channel("parts").refuse_together(Error(Errc::incomplete_shards, "a gap")); },
                Fails(Errc::incomplete_shards, ::testing::StartsWith("a gap")));
  });
  job.network().run(1s);

  for (const Session& each : joined) {
    EXPECT_THAT([&] { std::rethrow_exception(each.failure()); },
                Fails(Errc::incomplete_shards, ::testing::StartsWith("a gap")));
  }
}

TEST(Session, SaysOfAFailureThatItMayFollowFromAnother) {
  Job job(3, 1);
  std::vector<Session> joined;
  for (std::size_t rank = 0; rank < job.size(); ++rank) {
    joined.push_back(job.coordinator(rank).join());
  }

  const std::exception_ptr why = std::make_exception_ptr(Error(Errc::not_found, "a file"));
  job.network().at(1ms, [&] { joined[2].fail(as_following(why)); });
  job.network().run(1s);

  for (const std::size_t rank : {0, 1}) {
    EXPECT_TRUE(is_following(joined[rank].failure()));
    EXPECT_THAT([&] { std::rethrow_exception(joined[rank].failure()); },
                Fails(Errc::peer_failed, HasSubstr("rank 2: a file")));
  }
}

TEST(Session, CallsWhoListensForItsFailure) {
  Job job(2);
  const Session here = job.coordinator(0).join();
  const Session there = job.coordinator(1).join();
  std::string heard;
  here.on_failure([&](const std::exception_ptr& why) { heard = describe(why); });

  job.network().at(1ms, [&] { there.fail(std::make_exception_ptr(Error(Errc::io_failure, "no space"))); });
  job.network().run(1s);

  EXPECT_THAT(heard, HasSubstr("rank 1: no space"));
}

TEST(Job, HasOneNameOnAllRanks) {
  Job job(3);

  EXPECT_EQ(job.coordinator(0).job(), job.coordinator(2).job());
}

TEST(OldSession, SaysNothingInANewOne) {
  Job job(2);
  const auto ends = std::make_shared<std::vector<End>>(2);
  job.start(0, 0s, fail_at_five, ends);
  job.network().run(1ms);
  {  // Rank 1 gives its first session up while the packets of rank 0 are on their way to it.
    Session first = job.coordinator(1).join();
    first.leave();
  }
  job.network().run(1s);

  EXPECT_THAT(Job::texts(job.run(two_rounds)), Each("2 agreed"));
}

TEST(IdleCoordinator, WakesNobodyUp) {
  Job job(20);
  job.run(two_rounds);
  const auto end = job.network().now();

  EXPECT_TRUE(job.network().run(0ns)) << "something is left to happen";
  EXPECT_LT(end, 2s + 100ms);  // No heartbeat came after the last that was due.
}

TEST(MalformedPacket, FailsWhatWaits) {
  testing::SimulatedNetwork network(2);
  Coordinator first(network.transport(0));
  const auto stranger = network.transport(1);
  Session session = first.join();
  stranger->send(0, std::make_shared<const std::string>("no packet"));
  network.run(1s);

  EXPECT_THAT([&] { std::rethrow_exception(session.failure()); }, Fails(Errc::malformed_metadata));
}

TEST(CoordinatorOptions, ThatMakeNoSenseAreRefused) {
  testing::SimulatedNetwork network(1);
  const auto make = [&](auto change) {
    CoordinatorOptions options;
    change(options);
    const Coordinator coordinator(network.transport(0), options);
  };
  EXPECT_THAT([&] { make([](auto& options) { options.fan_out = 0; }); },
              Fails(Errc::invalid_argument, HasSubstr("fan_out")));
  EXPECT_THAT([&] { make([](auto& options) { options.heartbeat = 0s; }); },
              Fails(Errc::invalid_argument, HasSubstr("heartbeat")));
  EXPECT_THAT([&] { make([](auto& options) { options.lost_after = 1ms; }); },
              Fails(Errc::invalid_argument, HasSubstr("lost_after")));
}

TEST(Coordinator, CountsTheRanksOfItsMachine) {
  Job job(6);  // Four of them share the first.

  EXPECT_EQ(job.coordinator(0).ranks_on_host(), 4u);
  EXPECT_EQ(job.coordinator(5).ranks_on_host(), 2u);
}

}  // namespace
}  // namespace cairn::coord
