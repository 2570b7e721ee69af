// SPDX-License-Identifier: Apache-2.0
// Jobs in which ranks come late, fail, stop, crash and lose sight of each other, at moments that a seed chooses.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "coord/simulated_job.hpp"

namespace cairn::coord {
namespace {

using namespace std::chrono_literals;
using testing::End;
using testing::Ends;
using testing::Job;
using testing::Shared;

/// Rank 0 has decided this, by the number of the session.
struct Decisions {
  bool has_failing_rank = false;
  std::size_t failing_rank = 0;
  bool is_committed = false;
};

/// One job at a time runs in this thread.
Decisions& decisions() {
  static thread_local Decisions these;
  return these;
}

/// The rounds of a save, without the files: agree on what is saved, then all are ready, then rank 0 says how it ended.
Awaitable<std::string> save(Shared session, std::size_t rank) {
  Channel channel = session->channel("save");
  co_await channel.agree("structure", "same");
  if (decisions().has_failing_rank && rank == decisions().failing_rank) {
    session->fail(std::make_exception_ptr(std::runtime_error("no space")));
  }
  co_await channel.gather("ready");
  if (rank == 0) {
    decisions().is_committed = true;
  }
  co_return co_await channel.broadcast("committed");
}

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : random_(seed), job_(1 + pick(40), options(), network(seed)) {
    decisions() = Decisions();
    if (pick(4) == 0) {
      decisions() = {true, pick(job_.size()), false};
    }
    ends_ = std::make_shared<std::vector<End>>(job_.size());
    for (std::size_t rank = 0; rank < job_.size(); ++rank) {
      job_.start(rank, std::chrono::milliseconds(pick(3000)), save, ends_);
    }
    for (std::size_t faults = pick(4); faults > 0; --faults) {
      plan_fault();
    }
  }

  void run() {
    job_.network().run();
    const bool has_commit =
        std::any_of(ends_->begin(), ends_->end(), [](const End& end) { return end.text == "committed"; });
    EXPECT_TRUE(!has_commit || decisions().is_committed);
    for (std::size_t rank = 0; rank < job_.size(); ++rank) {
      const End& end = (*ends_)[rank];
      EXPECT_TRUE(end.is_reached || is_crashed_[rank]) << "rank " << rank << " of " << job_.size();
      EXPECT_LE(end.time, kLatest);
      if (!has_faults_ && !decisions().has_failing_rank) {
        EXPECT_EQ(end.text, "committed");
      }
    }
    if (!is_broken_) {
      decisions().has_failing_rank = false;
      EXPECT_THAT(Job::texts(job_.run(save)), ::testing::Each("committed"));
    }
  }

  [[nodiscard]] bool has_failed() const {
    return std::any_of(ends_->begin(), ends_->end(), [](const End& end) { return end.failure != nullptr; });
  }

 private:
  /// All have joined, the last fault has happened, who was stopped goes on; then a rank is lost, or never comes.
  static constexpr std::chrono::nanoseconds kLatest = 3s + 60s + 60s + 2s;

  std::size_t pick(std::size_t count) { return random_() % count; }

  CoordinatorOptions options() {
    CoordinatorOptions options;
    options.fan_out = 1 + pick(5);
    options.join_timeout = 60s;
    return options;
  }
  static testing::SimulatedOptions network(std::uint64_t seed) {
    testing::SimulatedOptions options;
    options.seed = seed;
    options.most_delay = 200ms;
    return options;
  }

  void plan_fault() {
    const std::size_t rank = pick(job_.size());
    const std::chrono::milliseconds when(pick(5000));
    has_faults_ = true;
    testing::SimulatedNetwork& network = job_.network();
    switch (pick(3)) {
      case 0:
        is_crashed_[rank] = is_broken_ = true;
        network.at(when, [&network, rank] { network.crash(rank); });
        break;
      case 1:
        network.at(when, [&network, rank] { network.stop(rank); });
        network.at(when + std::chrono::milliseconds(pick(50'000)), [&network, rank] { network.go_on(rank); });
        break;
      default:
        is_broken_ = true;
        network.at(when, [&network, rank, other = pick(job_.size())] { network.cut(rank, other); });
        break;
    }
  }

  std::mt19937_64 random_;
  Job job_;
  Ends ends_;
  std::vector<bool> is_crashed_ = std::vector<bool>(job_.size());
  bool has_faults_ = false;
  bool is_broken_ = false;  // For good.
};

TEST(SimulatedJob, EndsEverywhereAndNeverContradictsItself) {
  std::size_t failed = 0;
  constexpr std::uint64_t kSeeds = 300;
  for (std::uint64_t seed = 1; seed <= kSeeds && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Simulation simulation(seed);
    simulation.run();
    failed += simulation.has_failed();
  }
  EXPECT_GT(failed, kSeeds / 4);  // Or there is little to see here.
  EXPECT_LT(failed, kSeeds);
}

TEST(SimulatedJob, OfTenThousandRanksTalksAlongATree) {
  Job job(10'000, 16);

  EXPECT_THAT(Job::texts(job.run(save)), ::testing::Each("committed"));

  // To each neighbour: it is there, four steps, it leaves.
  EXPECT_EQ(job.network().packets(), 9'999u * (2 + 4 + 2));
  EXPECT_LT(job.network().sent_bytes(9'999), 300u);
}

}  // namespace
}  // namespace cairn::coord
