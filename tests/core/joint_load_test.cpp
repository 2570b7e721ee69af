// SPDX-License-Identifier: Apache-2.0
// Several ranks load one checkpoint together, and a handler does not do its part on one of them.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "async/internal/event.hpp"
#include "core/joint_job.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;
using testing::JointJob;
using testing::make_blob;
using testing::RankEnd;

class JointLoading : public ::testing::TestWithParam<std::size_t> {
 protected:
  [[nodiscard]] static JointJob::Options job_whose_loads(std::function<void(std::size_t)> hook) {
    JointJob::Options options(4);
    options.fan_out = 2;
    options.hooks.loading = std::move(hook);
    return options;
  }

  void save(JointJob& job) const {
    for (const RankEnd& end : job.save_all(directory_ / "step", make_blob(100'000))) {
      EXPECT_EQ(end.text(), "committed");
    }
  }

  [[nodiscard]] SaveResult load(JointJob& job, std::size_t rank, LoadOptions options = {}) const {
    options.together = true;
    static_cast<void>(
        core::start_load(directory_ / "step", {}, job.registry(), options, job.context(rank)).wait());
    return SaveResult();
  }

  const testing::TempDir directory_;
};

TEST_P(JointLoading, EndsOnAllRanksWhenAHandlerThrowsOnOne) {
  std::atomic<bool> is_broken{true};
  JointJob job(job_whose_loads([&](std::size_t rank) {
    if (is_broken && rank == GetParam()) {
      throw Error(Errc::io_failure, "cannot read it");
    }
  }));
  save(job);

  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) { return load(job, rank); });

  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (rank == GetParam()) {
      EXPECT_THAT([&] { ends[rank].rethrow(); },
                  Fails(Errc::io_failure, HasSubstr("'part' (handler test.part/1): cannot read it")));
    } else {
      EXPECT_THAT([&] { ends[rank].rethrow(); },
                  Fails(Errc::peer_failed, HasSubstr(fmt::format("rank {}: ", GetParam()))));
    }
  }
  is_broken = false;
  for (const RankEnd& end : job.on_all([&](std::size_t rank) { return load(job, rank); })) {
    EXPECT_EQ(end.text(), "committed");
  }
}

TEST_P(JointLoading, EndsAtTheDeadlineOfARankWhenAHandlerHangsOnAnother) {
  const async::Event others_have_ended;
  std::atomic<int> left{3};
  JointJob job(job_whose_loads([&](std::size_t rank) {
    if (rank == GetParam()) {
      others_have_ended.get();
    }
  }));
  save(job);

  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
    const std::shared_ptr<void> ended(nullptr, [&, rank](std::nullptr_t) {
      if (rank != GetParam() && --left == 0) {
        others_have_ended.set();
      }
    });
    LoadOptions hasty;
    hasty.deadline = std::chrono::milliseconds(500);
    return load(job, rank, rank == 2 ? hasty : LoadOptions());
  });

  EXPECT_THAT([&] { ends[2].rethrow(); },
              Fails(Errc::timed_out, HasSubstr(fmt::format("still waiting for rank {}:", GetParam()))));
  for (const std::size_t rank : {0, 1, 3}) {
    EXPECT_THAT([&] { ends[rank].rethrow(); },
                Fails(Errc::peer_failed,
                      ::testing::AllOf(HasSubstr("rank 2: load of "),
                                       HasSubstr(fmt::format("still waiting for rank {}:", GetParam())))));
  }
  for (const RankEnd& end : job.on_all([&](std::size_t rank) { return load(job, rank); })) {
    EXPECT_EQ(end.text(), "committed");
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, JointLoading, ::testing::Values(0, 1, 3));

}  // namespace
}  // namespace cairn
