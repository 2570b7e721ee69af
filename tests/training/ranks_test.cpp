// SPDX-License-Identifier: Apache-2.0
// Trainings of several ranks, which are threads here, each with a context and a clock of its own.
#include "training/ranks.hpp"

#include <barrier>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/testing/local_ranks.hpp"
#include "cairn/training/step_options.hpp"

#include "support/fails.hpp"

namespace cairn {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kThree;
using testing::ManualClock;
using testing::RanksOfATraining;
using testing::Trainer;

TEST_F(RanksOfATraining, SaveAndRemoveAndGoOnTogether) {
  const std::string failures = on_ranks([&](Trainer& trainer) {
    CheckpointerOptions options;
    options.save = save_when::every_steps(2);
    options.keep = keep::latest(2);
    Checkpointer run(root(), options, trainer.context);
    EXPECT_FALSE(run.resume());
    for (std::uint64_t step = 0; step < 10; ++step) {
      save(run, trainer.rank, step);
    }
    run.close();
    trainer.all.arrive_and_wait();
    auto resumed = Checkpointer(root(), options, trainer.context).resume({{"state"}});
    ASSERT_TRUE(resumed);
    EXPECT_EQ(resumed->step, 8u);
    EXPECT_EQ(resumed->loaded.take<Tree>("state").get<std::uint64_t>("step"), 8u);
  });

  EXPECT_EQ(failures, "");
  EXPECT_THAT(saved(), ElementsAre(0, 2, 4, 6, 8));
  EXPECT_THAT(on_disk(), ElementsAre(6, 8));
}

/// Ranks that resume by one load of all of them.
class RanksThatLoadTogether : public RanksOfATraining {
 protected:
  RanksThatLoadTogether() {
    how_.load.together = true;
    how_.fall_back = true;
  }

  void save_steps(std::uint64_t steps) {
    const std::string failures = on_ranks([&](Trainer& trainer) {
      Checkpointer run(root(), every_step(), trainer.context);
      for (std::uint64_t step = 1; step <= steps; ++step) {
        save(run, trainer.rank, step);
      }
      run.close();
    });
    EXPECT_EQ(failures, "");
  }

  static CheckpointerOptions every_step() {
    CheckpointerOptions options;
    options.save = save_when::every_steps(1);
    return options;
  }

  ResumeOptions how_;
};

TEST_F(RanksThatLoadTogether, GoOnFromTheStepThatRankZeroChooses) {
  save_steps(3);
  const std::string failures = on_ranks([&](Trainer& trainer) {
    auto resumed = Checkpointer(root(), every_step(), trainer.context).resume({{"state"}}, how_);
    ASSERT_TRUE(resumed);
    EXPECT_EQ(resumed->step, 3u);
    EXPECT_EQ(resumed->loaded.take<Tree>("state").get<std::uint64_t>("step"), 3u);
  });

  EXPECT_EQ(failures, "");
}

TEST_F(RanksThatLoadTogether, BeginAnewWhereThereAreNoSteps) {
  const std::string failures = on_ranks([&](Trainer& trainer) {
    EXPECT_FALSE(Checkpointer(root(), every_step(), trainer.context).resume({}, how_));
  });

  EXPECT_EQ(failures, "");
}

TEST_F(RanksThatLoadTogether, PassOverWhatIsDamagedOrRefusedByOne) {
  save_steps(4);
  tear_manifest(4);  // Rank 0 opens it.
  alter(3);          // One rank reads it.
  how_.accept = [](std::uint64_t step, Loaded& loaded) {
    return step != 2 || loaded.take<Tree>("state").get<std::uint64_t>("step") != 2;
  };
  const std::string failures = on_ranks([&](Trainer& trainer) {
    const auto resumed = Checkpointer(root(), every_step(), trainer.context).resume({{"state"}}, how_);
    ASSERT_TRUE(resumed);
    EXPECT_EQ(resumed->step, 1u);
    EXPECT_EQ(resumed->passed_over.size(), 3u) << "rank " << trainer.rank;
  });

  EXPECT_EQ(failures, "");
}

TEST_F(RanksThatLoadTogether, AreAllToldOfWhatIsDamagedWhereTheyMayNotFallBack) {
  save_steps(2);
  alter(2);
  how_.fall_back = false;
  const std::string failures = on_ranks([&](Trainer& trainer) {
    static_cast<void>(Checkpointer(root(), every_step(), trainer.context).resume({{"state"}}, how_));
  });

  EXPECT_THAT(failures, AllOf(HasSubstr("rank 0: "), HasSubstr("rank 1: "), HasSubstr("rank 2: "),
                              HasSubstr("run/2/state/"), HasSubstr("checksum")));
}

TEST_F(RanksThatLoadTogether, AreToldWhichOfThemDoNot) {
  save_steps(1);
  const std::string failures = on_ranks([&](Trainer& trainer) {
    ResumeOptions mine = how_;
    mine.load.together = trainer.rank != 1;
    EXPECT_THAT(
        [&] {
          static_cast<void>(Checkpointer(root(), every_step(), trainer.context).resume({{"state"}}, mine));
        },
        testing::Fails(
            Errc::invalid_argument,
            HasSubstr("ResumeOptions::load.together: ranks 0 and 2 have 'true', rank 1 has 'false'")));
  });

  EXPECT_EQ(failures, "");
}

TEST_F(RanksOfATraining, MayAskToLoadTogetherWhereThereIsOne) {
  save_alone("7");
  ResumeOptions how;
  how.load.together = true;

  const std::optional<Resumed> resumed = Checkpointer(root(), {}, *context_).resume({}, how);

  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->step, 7u);
}

TEST_F(RanksOfATraining, TakeTimesFromRank0) {
  const std::string failures = on_ranks([&](Trainer& trainer) {
    CheckpointerOptions options;
    options.save = save_when::continuously(seconds(10));
    Checkpointer run(root(), options, trainer.context);
    for (std::uint64_t step = 0; step < 60; ++step) {
      trainer.clock.advance(seconds(trainer.rank == 0 ? 1 : 7 * (step % 3)));
      save(run, trainer.rank, step);
      run.wait();
    }
    run.close();
  });

  EXPECT_EQ(failures, "");
  EXPECT_THAT(saved(), ElementsAre(0, 10, 20, 30, 40, 50));
}

TEST_F(RanksOfATraining, SaveTheSameStepWhenOneIsSentASignal) {
  const PreemptionGuard guard;
  const std::string failures = on_ranks([&](Trainer& trainer) {
    CheckpointerOptions options;
    options.save = save_when::any_of({save_when::every_steps(100), save_when::preempted()});
    options.preemption = trainer.rank == 1 ? &guard : nullptr;
    options.preemption_margin = 20;
    Checkpointer run(root(), options, trainer.context);
    for (std::uint64_t step = 1; !run.is_preempted(); ++step) {
      trainer.all.arrive_and_wait();
      if (step == 5 && trainer.rank == 1) {
        std::raise(SIGTERM);
      }
      save(run, trainer.rank, step);
    }
    run.close();
  });

  EXPECT_EQ(failures, "");
  EXPECT_THAT(on_disk(), saved());
  EXPECT_GE(saved().back(), 20u);
}

TEST_F(RanksOfATraining, WhereOneHasPassedTheStepSaveALaterOne) {
  const PreemptionGuard guard;
  const std::string failures = on_ranks([&](Trainer& trainer) {
    CheckpointerOptions options;
    options.save = save_when::preempted();
    options.preemption = trainer.rank == 0 ? &guard : nullptr;
    Checkpointer run(root(), options, trainer.context);
    save(run, trainer.rank, 5);
    if (trainer.rank == 2) {
      save(run, trainer.rank, 90);  // Far ahead.
    }
    trainer.all.arrive_and_wait();
    if (trainer.rank == 0) {
      std::raise(SIGTERM);
      save(run, trainer.rank, 6);
    }
    if (trainer.rank != 2) {
      save(run, trainer.rank, 8);
      save(run, trainer.rank, 90);
    }
    for (std::uint64_t step = 91; step < 100'000 && !run.is_preempted(); ++step) {
      trainer.all.arrive_and_wait();
      save(run, trainer.rank, step);
    }
    run.close();
  });

  EXPECT_EQ(failures, "");
  EXPECT_EQ(saved().size(), 1u);
  EXPECT_GE(saved().front(), 91u);
}

/// What is sent through it arrives late.
class SlowWire final : public coord::Transport {
 public:
  SlowWire(std::unique_ptr<coord::Transport> wire, std::chrono::milliseconds delay)
      : wire_(std::move(wire)), delay_(delay) {}
  ~SlowWire() override { std::this_thread::sleep_for(delay_ + delay_); }  // What was to be sent leaves.

  [[nodiscard]] std::size_t rank() const noexcept override { return wire_->rank(); }
  [[nodiscard]] std::size_t size() const noexcept override { return wire_->size(); }
  [[nodiscard]] std::span<const std::uint32_t> hosts() const noexcept override { return wire_->hosts(); }
  [[nodiscard]] Hash128 job() const noexcept override { return wire_->job(); }
  void send(std::size_t to, coord::Packet packet) override {
    wire_->call_after(delay_,
                      [wire = wire_.get(), to, packet = std::move(packet)] { wire->send(to, packet); });
  }
  void listen(Receiver receiver, std::function<void()> ended) override {
    wire_->listen(std::move(receiver), std::move(ended));
  }
  void call_after(std::chrono::nanoseconds delay, std::function<void()> work) override {
    wire_->call_after(delay, std::move(work));
  }
  [[nodiscard]] Time now() const override { return wire_->now(); }

 private:
  const std::unique_ptr<coord::Transport> wire_;
  const std::chrono::milliseconds delay_;
};

/// Ranks that wait for each other at each step, as at the sum of gradients: one that passed the step and did not save
/// it would wait there for the others, and they in the save for it.
TEST_F(RanksOfATraining, SaveTheSameStepHoweverLateTheyHearOfASignal) {
  for (const std::size_t late : {0, 1, 2}) {
    const PreemptionGuard guard;
    std::filesystem::remove_all(root());
    saved_.clear();
    std::barrier all(kThree);
    testing::LocalRanks job(kThree);
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < kThree; ++rank) {
      ranks.emplace_back([&, rank] {
        ContextOptions options = with_clock(std::make_shared<ManualClock>());
        options.coordinator = std::make_shared<coord::Coordinator>(std::make_unique<SlowWire>(
            job.transport(rank), std::chrono::milliseconds(rank == late ? 30 : 0)));
        Context context(options);
        CheckpointerOptions how;
        how.save = save_when::any_of({save_when::every_steps(7), save_when::preempted()});
        how.preemption = rank == kThree - 1 ? &guard : nullptr;
        Checkpointer run(root(), how, context);
        for (std::uint64_t step = 1; step < 100'000 && !run.is_preempted(); ++step) {
          all.arrive_and_wait();
          if (step == 20 && rank == kThree - 1) {
            std::raise(SIGTERM);
          }
          save(run, rank, step);
        }
        EXPECT_TRUE(run.is_preempted());
        run.close();
      });
    }
    for (std::thread& rank : ranks) {
      rank.join();
    }
    EXPECT_THAT(on_disk(), saved());
    EXPECT_GT(saved().back(), 20u);
  }
}

TEST_F(RanksOfATraining, NameTheOneThatDoesNotAnswerASignal) {
  const PreemptionGuard guard;
  testing::LocalRanks job(2);
  ContextOptions options = with_clock(clock_);
  options.coordinator = std::make_shared<coord::Coordinator>(job.transport(0));  // There is no rank 1.
  Context context(options);
  CheckpointerOptions how;
  how.save = save_when::preempted();
  how.preemption = &guard;
  Checkpointer run(root(), how, context);
  std::raise(SIGTERM);
  EXPECT_FALSE(run.save(6, {}));

  clock_->advance(seconds(31));

  EXPECT_THAT([&] { run.save(7, {}); },
              testing::Fails(Errc::peer_failed, HasSubstr("because of a signal, and rank 1: no answer")));
}

TEST_F(RanksOfATraining, WhoseNewestStepIsDamagedFallBackTogether) {
  for (const bool falls_back : {true, false}) {
    for (const char* step : {"1", "2"}) {
      std::filesystem::remove_all(root() / step);
      save_alone(step);
    }
    alter(2);
    const std::string failures = on_ranks([&](Trainer& trainer) {
      Checkpointer run(root(), {}, trainer.context);
      ResumeOptions options;
      options.fall_back = falls_back;
      const auto resumed = run.resume({}, options);
      EXPECT_TRUE(falls_back && resumed && resumed->step == 1);
    });

    if (falls_back) {
      EXPECT_EQ(failures, "");
    } else {
      EXPECT_THAT(failures, AllOf(HasSubstr("rank 0: "), HasSubstr("rank 1: "), HasSubstr("rank 2: "),
                                  HasSubstr("checksum")));
    }
  }
}

TEST_F(RanksOfATraining, FallBackTogetherToTheNewestStepThatAllAcceptAndSaveThoseAboveAgain) {
  for (const char* step : {"1", "2", "3", "4"}) {
    save_alone(step);
  }
  alter(4);
  const std::string failures = on_ranks([&](Trainer& trainer) {
    Checkpointer run(root(), {}, trainer.context);
    ResumeOptions options;
    options.fall_back = true;
    options.accept = [&](std::uint64_t step, Loaded&) { return step + trainer.rank < 4; };
    const auto resumed = run.resume({}, options);
    ASSERT_TRUE(resumed && resumed->step == 1);
    ASSERT_EQ(resumed->passed_over.size(), 3u);
    EXPECT_EQ(resumed->passed_over[0].path, root() / "4");
    EXPECT_EQ(resumed->passed_over[0].code, Errc::checksum_mismatch);
    EXPECT_THAT(resumed->passed_over[0].why, HasSubstr("run/4/state/"));
    EXPECT_EQ(resumed->passed_over[2].path, root() / "2");

    StepOptions saving;
    saving.save.overwrite = !resumed->passed_over.empty();  // On all ranks alike, or the save would fail.
    const Tree state = {{"step", 2}};
    run.save(2, {{"state", state}}, saving).wait();
  });

  EXPECT_EQ(failures, "");
}

TEST_F(RanksOfATraining, DoNotResumeWhereOneThrowsWhenItIsAskedWhetherItAccepts) {
  for (const char* step : {"1", "2"}) {
    save_alone(step);
  }
  for (const std::size_t throwing : {0u, 1u}) {
    const std::string failures = on_ranks([&](Trainer& trainer) {
      Checkpointer run(root(), {}, trainer.context);
      ResumeOptions options;
      options.fall_back = true;
      options.accept = [&](std::uint64_t step, Loaded&) {
        if (step == 2 && trainer.rank == throwing) {
          throw Error(Errc::checksum_mismatch, "of a file of the program's own");
        }
        return true;
      };
      static_cast<void>(run.resume({}, options));
    });

    EXPECT_THAT(failures, AllOf(HasSubstr("rank 0: "), HasSubstr("rank 1: "), HasSubstr("rank 2: "),
                                HasSubstr("of the program's own")));
  }
}

TEST_F(RanksOfATraining, ThatLoadTogetherAreToldWhereOneOfThemDoesNotHaveTheStep) {
  for (const char* step : {"1", "2"}) {
    save_alone(step);
  }
  const std::string failures = on_ranks([&](Trainer& trainer) {
    Checkpointer run(root(), {}, trainer.context);
    trainer.all.arrive_and_wait();
    if (trainer.rank == 0) {
      run.remove(1);  // The others do not know of it.
    }
    trainer.all.arrive_and_wait();
    LoadOptions together;
    together.together = true;
    const auto is_refused =
        testing::Fails(trainer.rank == 0 ? Errc::not_found : Errc::peer_failed, HasSubstr("step 1 of"));

    EXPECT_THAT([&] { static_cast<void>(run.load(1, {}, together)); }, is_refused);
    EXPECT_THAT([&] { static_cast<void>(run.load_async(1, {}, together).wait()); }, is_refused);
  });

  EXPECT_EQ(failures, "");
}

TEST_F(RanksOfATraining, WhosePoliciesDifferAreToldSo) {
  const std::string failures = on_ranks([&](Trainer& trainer) {
    CheckpointerOptions options;
    options.save = save_when::every_steps(trainer.rank == 2 ? 5 : 3);
    Checkpointer run(root(), options, trainer.context);
    for (std::uint64_t step = 1; step <= 5; ++step) {
      save(run, trainer.rank, step);
    }
  });

  EXPECT_THAT(failures, AllOf(HasSubstr("rank 0: "), HasSubstr("rank 1: "), HasSubstr("rank 2: "),
                              HasSubstr("run/3'"), HasSubstr("run/5'")));
}

TEST_F(RanksOfATraining, ASaveThatOneRankRefusesFailsOnAll) {
  const std::string failures = on_ranks([&](Trainer& trainer) {
    Checkpointer run(root(), {}, trainer.context);
    const Tree state = {{"step", 1}};
    StepOptions options(Metrics{{trainer.rank == 1 ? "" : "loss", 0.5}});
    run.save(1, {{"state", state}}, options).wait();
  });

  EXPECT_THAT(failures, AllOf(HasSubstr("rank 0: "), HasSubstr("rank 1: "), HasSubstr("rank 2: "),
                              HasSubstr("metric ''")));
  EXPECT_FALSE(std::filesystem::exists(root() / "1"));
}

TEST_F(RanksOfATraining, RemoveStepsOnRank0Alone) {
  for (const char* step : {"1", "2"}) {
    save_alone(step);
  }
  const std::string failures = on_ranks([&](Trainer& trainer) {
    Checkpointer run(root(), {}, trainer.context);
    trainer.all.arrive_and_wait();
    for (const std::uint64_t step : {1, 77}) {
      if (trainer.rank != 0) {
        EXPECT_THAT([&] { run.remove(step); },
                    testing::Fails(Errc::invalid_argument, HasSubstr("rank 0 alone")));
      }
    }
    EXPECT_THAT(run.steps(), ElementsAre(1, 2));
    trainer.all.arrive_and_wait();
    if (trainer.rank == 0) {
      run.remove(1);
    }
  });

  EXPECT_EQ(failures, "");
  EXPECT_THAT(on_disk(), ElementsAre(2));
}

}  // namespace
}  // namespace cairn
