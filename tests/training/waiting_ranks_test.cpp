// SPDX-License-Identifier: Apache-2.0
// Trainings of several ranks of which one comes late, never, or to another call: each wait has an end, all are told
// alike, and the next calls meet again.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/testing/local_ranks.hpp"
#include "cairn/training/step_options.hpp"

#include "support/fails.hpp"
#include "training/ranks.hpp"

namespace cairn {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::kThree;
using testing::ManualClock;
using testing::RanksOfATraining;
using testing::Trainer;

/// Sets a clock forward until it goes.
class PassingTime {
 public:
  explicit PassingTime(ManualClock& clock)
      : thread_([this, &clock] {
          while (!is_over_) {
            clock.advance(100ms);
            std::this_thread::sleep_for(1ms);
          }
        }) {}
  ~PassingTime() {
    is_over_ = true;
    thread_.join();
  }
  PassingTime(const PassingTime&) = delete;
  PassingTime& operator=(const PassingTime&) = delete;

 private:
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

class WaitingRanks : public RanksOfATraining {
 protected:
  WaitingRanks() {
    for (const char* step : {"1", "2", "3"}) {
      save_alone(step);
    }
  }

  static CheckpointerOptions by_time() {
    CheckpointerOptions options;
    options.save = save_when::continuously();
    return options;
  }

  static StepOptions within_a_second() {
    StepOptions how;
    how.save.deadline = 1s;
    return how;
  }

  /// Steps that all save once they meet again.
  void save_together(Checkpointer& run, Trainer& trainer, std::uint64_t step) {
    trainer.all.arrive_and_wait();
    run.save(step, {{"state", tree_}}).wait();
  }

  /// One rank calls `late` when the others have called `early`, which fails at the deadline that it has.
  std::string come_late(const CheckpointerOptions& options, std::size_t late,
                        const std::function<void(Checkpointer& run)>& call) {
    return on_ranks([&, late](Trainer& trainer) {
      Checkpointer run(root(), options, trainer.context);
      if (trainer.rank == late) {
        trainer.all.arrive_and_wait();
        EXPECT_THAT([&] { call(run); }, Fails(Errc::peer_failed, HasSubstr("not done after 1.000 s")));
      } else {
        {
          const PassingTime time(trainer.clock);
          try {
            call(run);
            ADD_FAILURE() << "rank " << trainer.rank << " did not wait for rank " << late;
          } catch (const Error& error) {  // The first whose time is up tells the other.
            EXPECT_TRUE(error.code() == Errc::timed_out || error.code() == Errc::peer_failed) << error.what();
            EXPECT_THAT(error.what(), HasSubstr("not done after 1.000 s; still waiting for rank"));
          }
        }
        trainer.all.arrive_and_wait();
      }
      save_together(run, trainer, 7);
      run.close();
    });
  }
};

TEST_F(WaitingRanks, DecideTogetherUntilTheDeadlineOfASave) {
  for (const std::size_t late : {0, 2}) {
    EXPECT_EQ(come_late(by_time(), late,
                        [&](Checkpointer& run) {
                          run.save(5, {{"state", tree_}}, within_a_second());
                        }),
              "");
    EXPECT_THAT(on_disk(), ElementsAre(1, 2, 3, 7));
    std::filesystem::remove_all(root() / "7");
  }
}

TEST_F(WaitingRanks, ResumeUntilTheDeadlineOfTheLoad) {
  ResumeOptions how;
  how.load.deadline = 1s;
  for (const bool together : {false, true}) {
    how.load.together = together;
    EXPECT_EQ(come_late({}, 1, [&](Checkpointer& run) { static_cast<void>(run.resume({}, how)); }), "");
    std::filesystem::remove_all(root() / "7");
  }
}

TEST_F(WaitingRanks, GoBackUntilTheDeadlineAndMoveNothing) {
  RewindOptions how;
  how.deadline = 1s;
  for (const std::size_t late : {0, 1}) {
    EXPECT_EQ(come_late({}, late, [&](Checkpointer& run) { run.rewind(1, how); }), "");
    EXPECT_THAT(on_disk(), ElementsAre(1, 2, 3, 7));
    std::filesystem::remove_all(root() / "7");
  }
}

/// The first is what rank 1 calls, while the others save.
TEST_F(WaitingRanks, ThatCallDifferentThingsAreAllToldSoAndMeetAgain) {
  const std::pair<const char*, std::function<void(Checkpointer&)>> calls[] = {
      {"rank 1 rewinds to step 2 of ", [](Checkpointer& run) { run.rewind(2); }},
      {"rank 1 resumes ", [](Checkpointer& run) { static_cast<void>(run.resume()); }},
      {"rank 1 loads ",
       [](Checkpointer& run) {
         LoadOptions together;
         together.together = true;
         static_cast<void>(run.load(2, {}, together));
       }},
  };
  for (const auto& [words, call] : calls) {
    for (const bool asks_time : {false, true}) {
      const std::string failures = on_ranks([&, &says = words, &act = call](Trainer& trainer) {
        Checkpointer run(root(), asks_time ? by_time() : CheckpointerOptions(), trainer.context);
        EXPECT_THAT(
            [&] {
              if (trainer.rank == 1) {
                act(run);
              } else {
                run.save(5, {{"state", tree_}}).wait();
              }
            },
            Fails(Errc::invalid_argument,
                  AllOf(HasSubstr(says),
                        HasSubstr(asks_time ? " decides whether to save step 5 of " : " saves "))));
        save_together(run, trainer, 7);
        run.close();
      });

      EXPECT_EQ(failures, "");
      EXPECT_THAT(on_disk(), ElementsAre(1, 2, 3, 7));
      std::filesystem::remove_all(root() / "7");
    }
  }
}

TEST_F(WaitingRanks, OfWhichOneGoesByTimesAndAnotherByStepsAreToldSo) {
  const std::string failures = on_ranks([&](Trainer& trainer) {
    Checkpointer run(root(), trainer.rank == 2 ? CheckpointerOptions() : by_time(), trainer.context);
    EXPECT_THAT(
        [&] {
          run.save(5, {{"state", tree_}}).wait();
        },
        Fails(Errc::invalid_argument,
              AllOf(HasSubstr("rank 2 saves "), HasSubstr("decides whether to save step 5 of "))));
  });

  EXPECT_EQ(failures, "");
}

TEST_F(WaitingRanks, RefuseTimesBelowZero) {
  const auto is_refused = [](const char* what) {
    return Fails(Errc::invalid_argument, AllOf(HasSubstr(what), HasSubstr("is below 0")));
  };
  CheckpointerOptions options;
  options.join_timeout = -1s;
  EXPECT_THAT([&] { Checkpointer(root(), options, *context_); },
              is_refused("CheckpointerOptions::join_timeout"));
  Checkpointer run(root(), {}, *context_);
  StepOptions saving;
  saving.save.deadline = -1ns;
  EXPECT_THAT([&] { run.save(5, {{"state", tree_}}, saving); }, is_refused("the deadline"));
  RewindOptions back;
  back.deadline = -1s;
  EXPECT_THAT([&] { run.rewind(1, back); }, is_refused("step 1 of"));
  ResumeOptions resuming;
  resuming.load.deadline = -1s;
  EXPECT_THAT([&] { static_cast<void>(run.resume({}, resuming)); }, is_refused("resume of"));
  LoadOptions loading;
  loading.deadline = -1s;
  EXPECT_THAT([&] { static_cast<void>(run.load(1, {}, loading)); }, is_refused("the deadline"));
  ListOptions listing;
  listing.deadline = -1s;
  EXPECT_THAT([&] { static_cast<void>(list_checkpoints(root(), listing, *context_)); },
              is_refused("the deadline"));
}

/// Two ranks whose coordinators give others little time.
class ImpatientRanks : public WaitingRanks {
 protected:
  void make(const coord::CoordinatorOptions& how) {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      clocks_.push_back(std::make_shared<ManualClock>());
      ContextOptions options = with_clock(clocks_.back());
      options.coordinator = std::make_shared<coord::Coordinator>(job_.transport(rank), how);
      contexts_.push_back(std::make_unique<Context>(options));
    }
  }

  testing::LocalRanks job_{2};
  std::vector<std::shared_ptr<ManualClock>> clocks_;
  std::vector<std::unique_ptr<Context>> contexts_;
};

TEST_F(ImpatientRanks, WaitForOneThatNeverComesForTheTimeOfTheCheckpointer) {
  coord::CoordinatorOptions how;
  how.heartbeat = 10ms;
  make(how);
  CheckpointerOptions options;
  options.join_timeout = 50ms;
  LoadOptions together;
  together.together = true;
  const auto is_told = Fails(Errc::peer_failed, HasSubstr("rank 1 has not joined within join_timeout"));

  Checkpointer run(root(), options, *contexts_[0]);
  EXPECT_THAT([&] { run.save(5, {{"state", tree_}}).wait(); }, is_told);
  EXPECT_THAT([&] { run.rewind(1); }, is_told);
  EXPECT_THAT([&] { static_cast<void>(run.resume()); }, is_told);
  EXPECT_THAT([&] { static_cast<void>(run.load(1, {}, together)); }, is_told);
  options.save = save_when::continuously();
  EXPECT_THAT([&] { Checkpointer(root(), options, *contexts_[0]).save(5, {{"state", tree_}}); }, is_told);
}

TEST_F(ImpatientRanks, WithoutRank0AreToldThatItIsLostAtEachStep) {
  coord::CoordinatorOptions how;
  how.heartbeat = 50ms;
  how.lost_after = 1s;
  make(how);
  CheckpointerOptions options = by_time();
  options.join_timeout = {};
  std::vector<std::unique_ptr<Checkpointer>> runs;
  for (const auto& context : contexts_) {
    runs.push_back(std::make_unique<Checkpointer>(root(), options, *context));
  }
  std::thread first([&] { runs[0]->save(5, {{"state", tree_}}).wait(); });
  runs[1]->save(5, {{"state", tree_}}).wait();
  first.join();

  job_.cut(0);

  const PassingTime time(*clocks_[1]);
  for (const std::uint64_t step : {6, 7, 8, 9}) {
    EXPECT_THAT([&] { static_cast<void>(runs[1]->should_save(step)); },
                Fails(Errc::peer_lost, HasSubstr("rank 0 is lost")))
        << step;
  }
}

}  // namespace
}  // namespace cairn
