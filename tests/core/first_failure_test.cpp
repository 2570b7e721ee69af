// SPDX-License-Identifier: Apache-2.0
// All ranks of a save that fails say what came first.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "async/internal/event.hpp"
#include "coord/holding_wire.hpp"
#include "core/joint_job.hpp"
#include "core/joint_saving.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using testing::HoldingWire;
using testing::JointJob;
using testing::JointSaving;
using testing::make_blob;
using ::testing::Not;
using testing::RankEnd;

/// Gives rank 1 a wire on which the words of rank 0 can be held back; `wire` is that one, once the job is made.
void hold_at_rank_one(JointJob::Options& options, HoldingWire*& wire) {
  options.wire = [&wire](std::unique_ptr<coord::Transport> transport) -> std::unique_ptr<coord::Transport> {
    if (transport->rank() != 1) {
      return transport;
    }
    auto holding = std::make_unique<HoldingWire>(std::move(transport));
    wire = holding.get();
    return holding;
  };
}

auto says_what_came_first() {
  return Fails(Errc::peer_failed, AllOf(HasSubstr("rank 0: 'part' (handler test.part/1): no space"),
                                        Not(HasSubstr("No such file"))));
}

TEST_F(JointSaving, SaysWhatCameFirstAlsoToRanksThatHearOfWhatIsMissingBefore) {
  JointJob::Options options(4);
  options.fan_out = 1;
  HoldingWire* wire = nullptr;
  hold_at_rank_one(options, wire);
  const async::Event all_write;
  const async::Event rank_zero_has_ended;
  const async::Event others_may_go_on;
  std::atomic<int> writing{0};
  options.hooks.background = [&](std::size_t rank) {
    if (++writing == 4) {
      wire->hold();
      all_write.set();
    }
    all_write.get();
    if (rank == 0) {
      throw Error(Errc::io_failure, "no space");
    }
    (rank == 3 ? rank_zero_has_ended : others_may_go_on).get();
  };
  JointJob job(options);
  // Rank 3 misses the directory, and tells rank 2, which tells rank 1: none of them has heard of rank 0.
  wire->on_failure = [&] {
    others_may_go_on.set();
    wire->release_in(std::chrono::milliseconds(0));
  };

  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
    const std::shared_ptr<void> ended(nullptr, [&, rank](std::nullptr_t) {
      if (rank == 0) {
        rank_zero_has_ended.set();
      }
    });
    return job.save(rank, target(), make_blob(10));
  });

  for (const std::size_t rank : {1, 2, 3}) {
    EXPECT_THAT([&] { ends[rank].rethrow(); }, says_what_came_first());
  }
}

TEST_F(JointSaving, SaysWhatCameFirstAlsoWhereItIsMissedBeforeAllHaveAgreed) {
  JointJob::Options options(2);
  HoldingWire* wire = nullptr;
  hold_at_rank_one(options, wire);
  const async::Event rank_zero_has_ended;
  options.hooks.blocking = [&](std::size_t rank) {
    if (rank == 0) {
      throw Error(Errc::io_failure, "no space");
    }
    rank_zero_has_ended.get();
    throw_errno(ENOENT, "create", "part-1");
  };
  JointJob job(options);
  wire->hold();
  wire->on_failure = [&] { wire->release_in(std::chrono::milliseconds(20)); };

  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
    const std::shared_ptr<void> ended(nullptr, [&, rank](std::nullptr_t) {
      if (rank == 0) {
        rank_zero_has_ended.set();
      }
    });
    return job.save(rank, target(), make_blob(10));
  });

  EXPECT_THAT([&] { ends[1].rethrow(); }, says_what_came_first());
}

TEST_F(JointSaving, LeavesToARankWhatItMissesByItself) {
  JointJob::Options options(3);
  options.hooks.background = [](std::size_t rank) {
    if (rank == 2) {
      throw_errno(ENOENT, "open", "what/the/handler/reads");
    }
  };
  JointJob job(options);

  const std::vector<RankEnd> ends = job.save_all(target(), make_blob(10));

  EXPECT_THAT([&] { ends[2].rethrow(); }, FailsWithErrno(ENOENT, HasSubstr("what/the/handler/reads")));
  for (const std::size_t rank : {0, 1}) {
    EXPECT_THAT(
        [&] { ends[rank].rethrow(); },
        Fails(Errc::peer_failed, AllOf(HasSubstr("rank 2: 'part'"), HasSubstr("what/the/handler/reads"))));
  }
}

}  // namespace
}  // namespace cairn
