// SPDX-License-Identifier: Apache-2.0
// Ranks whose program lends the coordinator a thread only now and then.
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/coord/coordinator.hpp"

#include "coord/internal/borrowed_caller_thread.hpp"
#include "coord/simulated_job.hpp"
#include "support/fails.hpp"

namespace cairn::coord {
namespace {

using namespace std::chrono_literals;
using testing::Fails;
using ::testing::HasSubstr;
using testing::Job;

/// Ranks 1 and 2 are below rank 0.
class RestingRank : public ::testing::Test {
 protected:
  RestingRank() {
    for (std::size_t rank = 0; rank < job_.size(); ++rank) {
      joined_.push_back(std::make_unique<Session>(job_.coordinator(rank).join()));
    }
    job_.network().run(1s);
  }

  /// The program of rank 2 computes.
  void compute(std::chrono::nanoseconds time) {
    job_.network().at(0ns, [&] { job_.network().stop(2); });
    job_.network().run(time);
    job_.network().go_on(2);
  }

  static testing::SimulatedOptions lent() {
    testing::SimulatedOptions options;
    options.needs_threads = true;
    return options;
  }

  Job job_{3, CoordinatorOptions(), lent()};
  std::vector<std::unique_ptr<Session>> joined_;
};

TEST_F(RestingRank, IsNotLostBetweenTwoCallsOfProgress) {
  for (int step = 0; step < 3; ++step) {
    job_.network().run(1ms);  // What is due happens.
    EXPECT_TRUE(job_.coordinator(2).progress());
    job_.network().run(1ms);  // What it has said arrives.
    compute(100s);
  }

  for (const auto& session : joined_) {
    EXPECT_EQ(session->failure(), nullptr);
  }
}

TEST_F(RestingRank, IsLostWhenItIsSilentWhileItHasAThread) {
  job_.coordinator(2).progress();
  job_.network().run(3s);  // A call that waits: signs of life among what it says.

  compute(100s);

  EXPECT_THAT([&] { std::rethrow_exception(joined_[1]->failure()); },
              Fails(Errc::peer_lost, HasSubstr("rank 2 is lost")));
}

TEST_F(RestingRank, IsNotLostWhereOthersMayKeepTheThreadThatWaits) {
  BorrowedCallerThread thread(job_.coordinator(2));
  thread.set_resting(true);
  for (int phase = 0; phase < 3; ++phase) {
    job_.network().run(3s);  // Signs of life among what it says.
    static_cast<void>(thread.progress(true));
    job_.network().run(1ms);

    compute(100s);
  }

  for (const auto& session : joined_) {
    EXPECT_EQ(session->failure(), nullptr);
  }
}

TEST_F(RestingRank, SaysOnceThatItRests) {
  job_.coordinator(2).progress();
  const std::uint64_t said = job_.network().sent_bytes(2);

  job_.coordinator(2).progress();

  EXPECT_EQ(job_.network().sent_bytes(2), said);
}

}  // namespace
}  // namespace cairn::coord
