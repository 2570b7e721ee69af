// SPDX-License-Identifier: Apache-2.0
// Ranks of a save that nobody hears any more: verdicts never contradict each other, or the disk.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "async/internal/event.hpp"
#include "core/joint_job.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/verify.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

using testing::Blob;
using testing::Fails;
using ::testing::HasSubstr;
using testing::JointJob;
using testing::load_alone;
using testing::make_blob;
using testing::overwriting_save;
using testing::RankEnd;
using testing::TempDir;

class LostRank : public ::testing::Test {
 protected:
  /// No rank is lost before a test lets time pass.
  static JointJob::Options timeless() {
    JointJob::Options options(3);
    options.lost_after = 3s;
    options.time_stands_still = true;
    return options;
  }

  [[nodiscard]] fs::path target() const { return directory_ / "step"; }

  /// What is left when a program that starts next has cleaned up.
  [[nodiscard]] std::vector<std::string> names_after_recovery() const {
    store::recover(io::posix_syscalls(), directory_.path(), {});
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  /// All ranks have ended but one.
  struct Ended {
    explicit Ended(int most) : left(most) {}
    void one() {
      if (--left == 0) {
        all.set();
      }
    }
    std::atomic<int> left;
    const async::Event all;
  };

  TempDir directory_;
};

TEST_F(LostRank, LeavesNothingWhenItIsLostBeforeItWasReady) {
  JointJob::Options options = timeless();
  const async::Event others_have_ended;
  JointJob* job_of_hook = nullptr;
  options.hooks.background = [&](std::size_t rank) {
    if (rank == 2) {
      job_of_hook->network().cut(2);
      job_of_hook->let_time_pass();
      others_have_ended.get();
    }
  };
  JointJob job(options);
  job_of_hook = &job;
  Ended ended(2);

  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
    try {
      return job.save(rank, target(), make_blob(100'000));
    } catch (...) {
      if (rank != 2) {
        ended.one();
      }
      if (rank == 0) {
        ended.all.get();
        others_have_ended.set();
      }
      throw;
    }
  });

  for (const std::size_t rank : {0, 1}) {
    EXPECT_THAT([&] { ends[rank].rethrow(); }, Fails(Errc::peer_lost, HasSubstr("rank 2 is lost")));
  }
  EXPECT_THAT([&] { ends[2].rethrow(); }, Fails(Errc::peer_lost, HasSubstr("is lost")));
  EXPECT_THAT(names_after_recovery(), ::testing::IsEmpty());
}

TEST_F(LostRank, IsMissedByTheNextSaveAndEndsAllThatFollows) {
  JointJob job(timeless());
  ASSERT_EQ(job.save_all(target(), make_blob(1000))[0].text(), "committed");
  job.network().cut(2);  // Between two saves.
  job.let_time_pass();
  const auto others = [&](const std::function<SaveResult(std::size_t)>& act) {
    std::vector<RankEnd> ends =
        job.on_all([&](std::size_t rank) { return rank == 2 ? SaveResult() : act(rank); });
    ends.pop_back();
    return ends;
  };
  const auto save = [&](std::size_t rank) { return job.save(rank, directory_ / "next", make_blob(1000)); };
  const auto load = [&](std::size_t rank) {
    LoadOptions together;
    together.together = true;
    static_cast<void>(core::start_load(target(), {}, job.registry(), together, job.context(rank)).wait());
    return SaveResult();
  };

  for (const RankEnd& end : others(save)) {
    EXPECT_THAT([&] { end.rethrow(); }, Fails(Errc::peer_lost, HasSubstr("rank 2 is lost")));
  }
  for (const RankEnd& end : others(save)) {
    EXPECT_THAT([&] { end.rethrow(); }, Fails(Errc::peer_lost, HasSubstr("rank 2 is lost")));
  }
  for (const RankEnd& end : others(load)) {
    EXPECT_THAT([&] { end.rethrow(); }, Fails(Errc::peer_lost, HasSubstr("rank 2 is lost")));
  }
  EXPECT_THAT(names_after_recovery(), ::testing::ElementsAre("step"));
}

/// Rank 0 falls silent at its rename. Before it goes on, it waits until the others have ended, or it has renamed first.
class LostPrimary : public LostRank, public ::testing::WithParamInterface<bool> {
 protected:
  [[nodiscard]] static bool is_overwriting() { return GetParam(); }

  void SetUp() override {
    if (is_overwriting()) {
      const std::vector<RankEnd> ends = job_.save_all(target(), old_);
      ASSERT_EQ(ends[0].text(), "committed");
    }
  }

  [[nodiscard]] std::vector<RankEnd> save() {
    return job_.on_all([&](std::size_t rank) {
      struct Telling {
        ~Telling() {
          if (rank != 0) {
            ended.one();
          }
        }
        Ended& ended;
        std::size_t rank;
      } telling{ended_, rank};
      return job_.save(rank, target(), new_, overwriting_save());
    });
  }

  const Blob old_ = make_blob(1000, 1);
  const Blob new_ = make_blob(2000, 2);
  Ended ended_{2};
  JointJob job_{timeless()};
};

TEST_P(LostPrimary, IsAbortedByTheOthersBeforeItsRename) {
  job_.syscalls(0).before_publication = [&] {
    job_.network().cut(0);
    job_.let_time_pass();
    ended_.all.get();
  };

  const std::vector<RankEnd> ends = save();

  EXPECT_NE(ends[0].text(), "committed");
  for (const std::size_t rank : {1, 2}) {
    EXPECT_THAT([&] { ends[rank].rethrow(); }, Fails(Errc::peer_lost, HasSubstr("rank 0 is lost")));
  }
  EXPECT_THAT(names_after_recovery(), ::testing::SizeIs(is_overwriting() ? 1 : 0));
  if (is_overwriting()) {
    EXPECT_EQ(load_alone(target(), job_.registry()).take<Blob>("blob"), old_);
  }
}

TEST_P(LostPrimary, IsFoundCommittedByTheOthersAfterItsRename) {
  job_.syscalls(0).after_publication = [&] {
    job_.network().cut(0);
    job_.let_time_pass();
    ended_.all.get();
  };

  const std::vector<RankEnd> ends = save();

  for (const RankEnd& end : ends) {
    EXPECT_EQ(end.text(), "committed");
  }
  EXPECT_EQ(load_alone(target(), job_.registry()).take<Blob>("blob"), new_);
  EXPECT_TRUE(store::verify(io::posix_syscalls(), target(), {}).is_sound());
  EXPECT_THAT(names_after_recovery(), ::testing::ElementsAre("step"));
}

INSTANTIATE_TEST_SUITE_P(Saves, LostPrimary, ::testing::Bool(),
                         [](const auto& mode) { return mode.param ? "Overwriting" : "New"; });

TEST_F(LostRank, KeepsNobodyBehindItFromTheVerdict) {
  JointJob::Options options = timeless();
  options.fan_out = 1;  // Rank 1 is between the others.
  JointJob job(options);
  job.syscalls(0).before_publication = [&] { job.network().cut(1); };
  job.syscalls(0).after_publication = [&] { job.let_time_pass(); };
  job.syscalls(2).moves_nothing_away = true;  // Its disk has no answer.

  const std::vector<RankEnd> ends = job.save_all(target(), make_blob(1000));

  EXPECT_EQ(ends[0].text(), "committed");
  EXPECT_EQ(ends[2].text(), "committed");
}

TEST_F(LostRank, LearnsTheVerdictWhenItWasCancelledTooLate) {
  JointJob::Options options(3);
  JointJob job(options);
  const async::Event is_publishing;
  const async::Event is_cancelled;
  job.syscalls(0).before_publication = [&] {
    is_publishing.set();
    is_cancelled.get();
  };

  const std::vector<RankEnd> ends = job.on_all([&](std::size_t rank) {
    const AsyncResponse saving = job.start(rank, target(), make_blob(10));
    if (rank == 1) {
      is_publishing.get();
      saving.cancel();
      is_cancelled.set();
    }
    return saving.wait();
  });

  for (const RankEnd& end : ends) {
    EXPECT_EQ(end.text(), "committed");
  }
}

}  // namespace
}  // namespace cairn
