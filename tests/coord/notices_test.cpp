// SPDX-License-Identifier: Apache-2.0
// Ranks tell each other things outside of sessions.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "coord/simulated_job.hpp"

namespace cairn::coord {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Job;

constexpr std::size_t kListening = 20;

class Notices : public ::testing::Test {
 protected:
  Notices() : heard_(kListening) {
    for (std::size_t rank = 0; rank < kListening; ++rank) {
      listening_.push_back(
          job_.coordinator(rank).listen("topic", [this, rank](std::size_t from, std::string_view text) {
            heard_[rank].push_back(fmt::format("{}: {}", from, text));
          }));
    }
  }

  Job job_{kListening};
  std::vector<std::vector<std::string>> heard_;
  std::vector<std::shared_ptr<void>> listening_;
};

TEST_F(Notices, OfARankAreHeardByRank0Alone) {
  job_.coordinator(13).notify("topic", "a signal");
  job_.network().run();

  EXPECT_THAT(heard_[0], ElementsAre("13: a signal"));
  heard_.erase(heard_.begin());
  EXPECT_THAT(heard_, Each(IsEmpty()));
  EXPECT_EQ(job_.network().packets(), 1u);
}

TEST_F(Notices, OfRank0AreHeardByAllOthers) {
  job_.coordinator(0).notify("topic", "step 12");
  job_.network().run();

  EXPECT_THAT(heard_[0], IsEmpty());
  heard_.erase(heard_.begin());
  EXPECT_THAT(heard_, Each(ElementsAre("0: step 12")));
  EXPECT_EQ(job_.network().packets(), kListening - 1);
}

TEST_F(Notices, OfOtherTopicsAreNotHeard) {
  job_.coordinator(0).notify("another", "text");
  job_.coordinator(3).notify("topics", "text");
  job_.network().run();

  EXPECT_THAT(heard_, Each(IsEmpty()));
}

TEST_F(Notices, AreNotHeardByWhoDoesNotListenAnyMore) {
  listening_[5] = nullptr;
  job_.coordinator(0).notify("topic", "text");
  job_.network().run();

  EXPECT_THAT(heard_[5], IsEmpty());
  EXPECT_THAT(heard_[11], ElementsAre("0: text"));  // Rank 5 passes it on all the same.
}

TEST_F(Notices, AreNotDisturbedByTheSessionWithTheirNumber) {
  job_.coordinator(0).notify("topic", "early");
  const testing::Ends ends = job_.start([](testing::Shared session, std::size_t) -> Awaitable<std::string> {
    co_return co_await session->channel("topic").broadcast("said");
  });
  job_.network().run();

  EXPECT_THAT(heard_[19], ElementsAre("0: early"));
  EXPECT_EQ((*ends)[19].text, "said");
}

}  // namespace
}  // namespace cairn::coord
