// SPDX-License-Identifier: Apache-2.0
// Whom the ranks of a session wait for, as far as each knows.
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/coord/coordinator.hpp"

#include "coord/simulated_job.hpp"
#include "support/fails.hpp"

namespace cairn::coord {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::Job;

std::string named(const Session& session) {
  const SomeRanks missing = session.missing();
  return missing.count == 0 ? "nobody" : to_string(missing);
}

/// Ranks that have joined, and those of them that have begun a step in which texts go up.
class Missing : public ::testing::Test {
 protected:
  explicit Missing(std::size_t ranks = 15) : job_(ranks) {}  // Of rank 1: 3 (7, 8) and 4 (9, 10).

  void join(std::size_t rank) {
    joined_.resize(job_.size());
    joined_[rank] = std::make_unique<Session>(job_.coordinator(rank).join());
  }
  void speak(std::size_t rank) { static_cast<void>(joined_[rank]->channel("it").gather("")); }

  std::vector<std::string> known_by(const std::vector<std::size_t>& ranks) {
    std::vector<std::string> known;
    for (const std::size_t rank : ranks) {
      known.push_back(named(*joined_[rank]));
    }
    return known;
  }

  Job job_;
  std::vector<std::unique_ptr<Session>> joined_;
};

TEST_F(Missing, AreKnownToAllWhereverTheyAre) {
  for (std::size_t rank = 0; rank < job_.size(); ++rank) {
    if (rank != 8 && rank != 9) {
      join(rank);
      if (rank != 12) {
        speak(rank);  // Rank 12 has come, but does not say its part.
      }
    }
  }
  job_.network().run(10s);

  EXPECT_THAT(known_by({0, 1, 3, 7, 14}), ::testing::Each("ranks 8, 9 and 12"));

  join(8);
  speak(8);
  job_.network().run(10s);

  EXPECT_THAT(known_by({0, 3, 8, 10}), ::testing::Each("ranks 9 and 12"));

  join(9);
  speak(9);
  speak(12);
  job_.network().run(10s);

  EXPECT_THAT(known_by({0, 12, 14}), ::testing::Each("nobody"));
}

TEST_F(Missing, AreRankZeroWhereItsWordIsWaitedFor) {
  for (std::size_t rank = 0; rank < job_.size(); ++rank) {
    join(rank);
    if (rank != 0) {
      static_cast<void>(joined_[rank]->channel("word").broadcast(""));
    }
  }
  job_.network().run(10s);

  EXPECT_THAT(known_by({1, 3, 7, 14}), ::testing::Each("rank 0"));
  EXPECT_EQ(named(*joined_[0]), "nobody");

  speak(1);
  job_.network().run(10s);

  EXPECT_THAT(known_by({1, 14}), ElementsAre("ranks 3 and 4", "rank 0"));

  static_cast<void>(joined_[0]->channel("word").broadcast("word"));
  job_.network().run(10s);

  EXPECT_THAT(known_by({2, 14}), ::testing::Each("nobody"));
}

TEST_F(Missing, AreTheNeighboursThatHaveNotComeFromTheBeginning) {
  join(1);
  speak(1);

  EXPECT_EQ(named(*joined_[1]), "ranks 0, 3 and 4");
}

TEST_F(Missing, AreOthersThanTheRankThatAsks) {
  for (std::size_t rank = 0; rank < job_.size(); ++rank) {
    join(rank);
    if (rank != 3) {
      speak(rank);
    }
  }
  job_.network().run(10s);
  EXPECT_THAT(known_by({0, 1, 14}), ::testing::Each("rank 3"));
  EXPECT_THAT(known_by({3}), ElementsAre("nobody"));

  static_cast<void>(joined_[3]->channel("word").broadcast(""));

  EXPECT_THAT(known_by({3}), ElementsAre("rank 0"));
}

TEST(LateRanks, AreAllNamedWhenTheirTimeIsUp) {
  CoordinatorOptions options;
  options.join_timeout = 5s;
  Job job(8, options, {});
  const Session alone = job.coordinator(0).join();

  job.network().run(10s);

  EXPECT_THAT(
      [&] { std::rethrow_exception(alone.failure()); },
      Fails(Errc::peer_failed, HasSubstr("ranks 1, 2, 3, 4 and 3 more have not joined within join_timeout")));
}

}  // namespace
}  // namespace cairn::coord
