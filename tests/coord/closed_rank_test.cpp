// SPDX-License-Identifier: Apache-2.0
// Ranks that have closed their coordinators, while the others go on.
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "cairn/base/error.hpp"
#include "cairn/coord/session.hpp"

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
using testing::Shared;

std::string one_after_another(std::vector<std::string> texts) {
  return fmt::format("{}", fmt::join(texts, ""));
}

Awaitable<std::string> tell_rank_zero(Shared session, std::size_t rank) {
  std::vector<std::string> texts = co_await session->channel("it").gather(std::to_string(rank));
  co_return one_after_another(std::move(texts));
}

Awaitable<std::string> tell_each_other(Shared session, std::size_t rank) {
  Channel channel = session->channel("it");
  std::string all = co_await channel.reduce(std::to_string(rank), one_after_another);
  co_return co_await channel.broadcast(std::move(all));
}

/// Nobody waits for a rank that has ended.
class ClosedRank : public ::testing::TestWithParam<std::size_t> {
 protected:
  void expect_named(const std::vector<End>& ends) const {
    for (std::size_t rank = 0; rank < ends.size(); ++rank) {
      if (rank != GetParam()) {
        EXPECT_THAT([&] { ends[rank].rethrow(); },
                    Fails(Errc::peer_failed, HasSubstr(fmt::format("rank {} has closed its", GetParam()))));
        EXPECT_TRUE(ends[rank].is_reached) << rank;
      }
    }
  }

  Job job_{9};
};

TEST_P(ClosedRank, IsNamedBySessionsThatBeginLater) {
  EXPECT_EQ(job_.run(tell_rank_zero).front().text, "012345678");
  job_.close(GetParam());
  job_.network().run();

  for (int i = 0; i < 2; ++i) {
    const Ends ends = job_.start_without(GetParam(), tell_each_other);
    EXPECT_TRUE(job_.network().run(1s));
    expect_named(*ends);
  }
}

TEST_P(ClosedRank, IsNamedByASessionThatWaitsForIt) {
  const Ends ends = job_.start_without(GetParam(), tell_each_other);
  EXPECT_FALSE(job_.network().run(5s));

  job_.close(GetParam());

  EXPECT_TRUE(job_.network().run(1s));
  for (const End& end : *ends) {
    EXPECT_THAT(Job::texts({end}).front(),
                ::testing::AnyOf("", HasSubstr(fmt::format("rank {}", GetParam()))));
  }
}

TEST_P(ClosedRank, DoesNotFailWhatItHasDone) {
  const Ends ends = job_.start(tell_rank_zero);
  job_.network().at(2s, [this] { job_.close(GetParam()); });

  EXPECT_TRUE(job_.network().run());

  EXPECT_EQ(ends->front().text, "012345678");
}

INSTANTIATE_TEST_SUITE_P(Ranks, ClosedRank, ::testing::Values(0, 2, 8));

}  // namespace
}  // namespace cairn::coord
