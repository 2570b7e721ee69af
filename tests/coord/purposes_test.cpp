// SPDX-License-Identifier: Apache-2.0
// Ranks that join a session for different things.
#include <chrono>
#include <cstddef>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"

#include "coord/simulated_job.hpp"
#include "support/fails.hpp"

namespace cairn::coord {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using testing::Fails;
using ::testing::HasSubstr;
using testing::Job;
using testing::Shared;

Awaitable<std::string> agree_on_it(Shared session, std::size_t /*rank*/) {
  Channel channel = session->channel("it");
  co_await channel.agree("it", "same");
  co_return "agreed";
}

TEST(Purposes, ThatDifferFailTheSessionOnAllRanksAndTheNextCallsMeet) {
  for (const std::size_t odd : {0, 1, 4}) {
    Job job(5);
    std::vector<Session> joined;
    for (std::size_t rank = 0; rank < job.size(); ++rank) {
      if (rank == odd) {
        joined.push_back(job.coordinator(rank).join({"rewinds to", "step 4"}));
        continue;
      }
      for (Session& each : job.coordinator(rank).join_several(
               std::vector{FailureScope::job, FailureScope::root}, {"saves", "run/5"})) {
        joined.push_back(std::move(each));
      }
    }
    const std::size_t first_of_zero = 0;
    job.network().run(1s);

    for (const std::size_t at : {first_of_zero, odd == 0 ? 1 : 2 * odd}) {
      EXPECT_THAT(
          [&] { std::rethrow_exception(joined[at].failure()); },
          Fails(Errc::invalid_argument,
                AllOf(HasSubstr(fmt::format("rank {} rewinds to step 4", odd)), HasSubstr("saves run/5"))));
    }
    for (Session& each : joined) {
      each.leave();
    }
    EXPECT_THAT(Job::texts(job.run(agree_on_it)), Each("agreed")) << odd;
  }
}

TEST(Purposes, OfOneKindMayBeOfDifferentThings) {
  Job job(2);
  const Session here = job.coordinator(0).join({"saves", "a"});
  const Session there = job.coordinator(1).join({"saves", "b"});
  job.network().run(1s);

  EXPECT_EQ(here.failure(), nullptr);
  EXPECT_EQ(there.failure(), nullptr);
}

TEST(Purposes, ThatDifferAreToldByARankThatHasNotComeYet) {
  Job job(3, 1);  // Rank 1 is between the others.
  const Session above = job.coordinator(0).join({"saves", "run/5"});
  const Session below = job.coordinator(2).join({"loads", "run/4"});
  job.network().run(1s);

  for (const Session* each : {&above, &below}) {
    EXPECT_THAT([&] { std::rethrow_exception(each->failure()); },
                Fails(Errc::invalid_argument, HasSubstr("rank 2 loads run/4, while rank 0 saves run/5")));
  }
}

}  // namespace
}  // namespace cairn::coord
