// SPDX-License-Identifier: Apache-2.0
#include "cairn/coord/reduce_changes.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"

#include "coord/simulated_job.hpp"
#include "support/fails.hpp"

namespace cairn::coord {
namespace {

using ::testing::Each;
using testing::Fails;
using ::testing::HasSubstr;
using testing::Job;
using testing::Shared;

using Texts = std::string (*)(int round, std::size_t rank);

std::string in_a_row(std::vector<std::string> texts) {
  return fmt::format("{}", fmt::join(texts, ""));
}

/// Round after round, with what each has left for the next: whether it was known, and at rank 0 what all said. A rank
/// that forgets has nothing from before. Texts are merged in the order of the tree.
Awaitable<std::string> say(Shared session, std::size_t rank, int rounds, Texts texts, std::size_t forgetful) {
  std::optional<SaidBefore> before;
  std::string all;
  std::string story;
  for (int round = 0; round < rounds; ++round) {
    Channel channel = session->channel(fmt::format("round {}", round));
    if (rank == forgetful) {
      before.reset();
    }
    Channel::Merge merge = in_a_row;
    std::string text = texts(round, rank);
    Awaitable<Reduced> reducing = reduce_changes(channel, std::move(text), std::move(merge), before);
    const Reduced reduced = co_await std::move(reducing);
    before = reduced.said;
    if (!reduced.is_known) {
      all = reduced.all;
    }
    story += (reduced.is_known ? "known " : "news ") + all + ";";
  }
  co_return story;
}

constexpr std::size_t kNobody = ~std::size_t{0};

std::string same_always(int /*round*/, std::size_t rank) {
  return fmt::format("{}.", rank);
}

/// Two rounds alike, then one with something new of the last rank, two of that kind, then all have something new.
std::string changing(int round, std::size_t rank) {
  if (round == 4) {
    return fmt::format("new{}.", rank);
  }
  return round >= 2 && rank == 4 ? "four." : same_always(round, rank);
}

Awaitable<std::string> say_the_same(Shared session, std::size_t rank) {
  return say(std::move(session), rank, 3, same_always, kNobody);
}

Awaitable<std::string> say_changing(Shared session, std::size_t rank) {
  return say(std::move(session), rank, 5, changing, kNobody);
}

Awaitable<std::string> forget_one(Shared session, std::size_t rank) {
  return say(std::move(session), rank, 2, same_always, 2);
}

TEST(ReduceChanges, SaysWhatIsKnownOnce) {
  Job job(5);

  std::vector<std::string> stories = Job::texts(job.run(say_the_same));

  EXPECT_EQ(stories[0], "news 0.1.3.4.2.;known 0.1.3.4.2.;known 0.1.3.4.2.;");
  stories.erase(stories.begin());
  EXPECT_THAT(stories, Each("news ;known ;known ;"));
}

TEST(ReduceChanges, AsksAllWhenOneHasSomethingNew) {
  Job job(5);

  EXPECT_EQ(Job::texts(job.run(say_changing))[0],
            "news 0.1.3.4.2.;known 0.1.3.4.2.;news 0.1.3.four.2.;known 0.1.3.four.2.;"
            "news new0.new1.new3.new4.new2.;");
}

TEST(ReduceChanges, AsksAllWhenOneHasForgotten) {
  Job job(5);

  EXPECT_THAT(Job::texts(job.run(forget_one)), Each(HasSubstr(";news ")));
}

TEST(ReduceChanges, IsDoneByOneRankAlone) {
  Job job(1);

  EXPECT_EQ(Job::texts(job.run(say_the_same))[0], "news 0.;known 0.;known 0.;");
}

std::string long_text(int /*round*/, std::size_t rank) {
  return std::string(100'000, static_cast<char>('a' + rank));
}

Awaitable<std::string> say_much_once(Shared session, std::size_t rank) {
  return say(std::move(session), rank, 1, long_text, kNobody);
}

Awaitable<std::string> say_much_often(Shared session, std::size_t rank) {
  return say(std::move(session), rank, 11, long_text, kNobody);
}

TEST(ReduceChanges, SendsFewBytesForWhatIsKnown) {
  Job once(7);
  once.run(say_much_once);
  Job often(7);
  often.run(say_much_often);
  for (std::size_t rank = 1; rank < once.size(); ++rank) {
    EXPECT_GT(once.network().sent_bytes(rank), 100'000u);
    EXPECT_LT(often.network().sent_bytes(rank), once.network().sent_bytes(rank) + 10 * 3 * 64)
        << "Each round at most a packet for each of three neighbours, of 34 bytes and a head.";
  }
}

/// What all say is known from the first round on; of what is beside it, rank 3 has another in the last.
Awaitable<std::string> say_beside(Shared session, std::size_t rank) {
  std::optional<SaidBefore> before;
  std::string story;
  for (std::uint64_t round = 0; round < 3; ++round) {
    Channel channel = session->channel(fmt::format("round {}", round));
    Channel::Merge merge = in_a_row;
    const Hash128 aside{round, round == 2 && rank == 3 ? 1U : 0U};
    Awaitable<Reduced> reducing =
        reduce_changes(channel, same_always(0, rank), std::move(merge), before, aside);
    const Reduced reduced = co_await std::move(reducing);
    before = reduced.said;
    story +=
        fmt::format("{}, {};", reduced.is_known ? "known" : "news", reduced.is_alike ? "alike" : "differs");
  }
  co_return story;
}

TEST(ReduceChanges, ComparesWhatIsNewEveryTime) {
  Job job(5);

  EXPECT_THAT(Job::texts(job.run(say_beside)), Each("news, alike;known, alike;known, differs;"));
}

/// Ranks that remember different things of the same length.
Awaitable<std::string> remember_otherwise(Shared session, std::size_t rank) {
  Channel channel = session->channel("it");
  Channel::Merge merge = in_a_row;
  std::string text = same_always(0, rank);
  const std::optional<SaidBefore> before = SaidBefore{hash_text(text), Hash128{rank, 0}};
  Awaitable<Reduced> reducing = reduce_changes(channel, std::move(text), std::move(merge), before);
  const Reduced reduced = co_await std::move(reducing);
  co_return (reduced.is_known ? "known" : "news ") + reduced.all;
}

TEST(ReduceChanges, AsksAllWhenTheyRememberDifferentThings) {
  Job job(4);

  EXPECT_EQ(Job::texts(job.run(remember_otherwise))[0], "news 0.1.3.2.");
}

std::string refuse(const std::vector<std::string>& /*texts*/) {
  throw Error(Errc::invalid_argument, "these do not go together");
}

Awaitable<std::string> say_what_is_refused(Shared session, std::size_t rank) {
  Channel channel = session->channel("it");
  std::string text = same_always(0, rank);
  Channel::Merge merge = refuse;
  Awaitable<Reduced> reducing = reduce_changes(channel, std::move(text), std::move(merge), std::nullopt);
  co_return (co_await std::move(reducing)).all;
}

TEST(ReduceChanges, FailsOnAllRanksWhenTheTextsCannotBeMerged) {
  Job job(5);

  for (const std::string& end : Job::texts(job.run(say_what_is_refused))) {
    EXPECT_THAT(end, HasSubstr("these do not go together"));
  }
}

}  // namespace
}  // namespace cairn::coord
