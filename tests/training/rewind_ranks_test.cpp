// SPDX-License-Identifier: Apache-2.0
// Trainings of several ranks that go back: rank 0 sets steps aside, and all wait for it.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <gmock/gmock.h>

#include "cairn/training/step_options.hpp"

#include "support/fails.hpp"
#include "training/ranks.hpp"

namespace cairn {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::RanksOfATraining;
using testing::Trainer;

class RanksThatGoBack : public RanksOfATraining {
 protected:
  RanksThatGoBack() {
    for (const char* step : {"1", "2", "3"}) {
      save_alone(step);
    }
  }
};

TEST_F(RanksThatGoBack, WaitUntilRank0HasSetStepsAsideAndSaveThemAgain) {
  const std::string failures = on_ranks([&](Trainer& trainer) {
    CheckpointerOptions options;
    options.keep = keep::latest(3);
    Checkpointer run(root(), options, trainer.context);
    run.rewind(1);
    EXPECT_FALSE(std::filesystem::exists(root() / "2"));
    EXPECT_THAT(run.steps(), ElementsAre(1));
    trainer.all.arrive_and_wait();
    save(run, trainer.rank, 2);
    run.close();
  });

  EXPECT_EQ(failures, "");
  EXPECT_THAT(saved(), ElementsAre(2));
  EXPECT_THAT(on_disk(), ElementsAre(1, 2));
}

TEST_F(RanksThatGoBack, ToDifferentStepsMoveNothing) {
  const std::string failures = on_ranks([&](Trainer& trainer) {
    Checkpointer run(root(), {}, trainer.context);
    EXPECT_THAT([&] { run.rewind(trainer.rank == 2 ? 2 : 1); },
                Fails(Errc::invalid_argument, HasSubstr("the step to go back to")));
  });

  EXPECT_EQ(failures, "");
  EXPECT_THAT(on_disk(), ElementsAre(1, 2, 3));
}

TEST_F(RanksThatGoBack, WhileOneOfThemLoadsAStepMoveNothing) {
  const std::string failures = on_ranks([&](Trainer& trainer) {
    Checkpointer run(root(), {}, trainer.context);
    std::optional<StepLoadResponse> loading;
    if (trainer.rank == 1) {
      loading.emplace(run.load_async(3));
    }
    trainer.all.arrive_and_wait();
    const Errc code = trainer.rank == 0 ? Errc::invalid_argument : Errc::peer_failed;
    EXPECT_THAT([&] { run.rewind(1); }, Fails(code, HasSubstr("step 3 is being")));
    trainer.all.arrive_and_wait();
  });

  EXPECT_EQ(failures, "");
  EXPECT_THAT(on_disk(), ElementsAre(1, 2, 3));
}

TEST_F(RanksThatGoBack, BelowLaterStepsAreToldSo) {
  const std::string failures = on_ranks([&](Trainer& trainer) {
    CheckpointerOptions options;
    options.keep = keep::latest(1);
    Checkpointer run(root(), options, trainer.context);
    const Errc code = trainer.rank == 0 ? Errc::invalid_argument : Errc::peer_failed;
    EXPECT_THAT(
        [&] {
          run.save(0, {{"state", tree_}}).wait();
        },
        Fails(code, AllOf(HasSubstr("step 0 of"), HasSubstr("Checkpointer::rewind"))));
    run.close();
  });

  EXPECT_EQ(failures, "");
  EXPECT_THAT(on_disk(), ElementsAre(1, 2, 3));
}

TEST_F(RanksOfATraining, ThatGoBackGoByTimesOfTheNewLine) {
  const std::string failures = on_ranks([&](Trainer& trainer) {
    CheckpointerOptions options;
    options.save = save_when::continuously(seconds(10));
    Checkpointer run(root(), options, trainer.context);
    const auto train = [&](std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t step = begin; step < end; ++step) {
        trainer.clock.advance(seconds(1));
        save(run, trainer.rank, step);
        run.wait();
      }
    };
    train(0, 36);  // Rank 0 has named step 40 next.
    run.rewind(10);
    train(11, 30);
    run.close();
  });

  EXPECT_EQ(failures, "");
  EXPECT_THAT(saved(), ElementsAre(0, 10, 20, 30, 15, 25));
  EXPECT_THAT(on_disk(), ElementsAre(0, 10, 15, 25));
}

TEST_F(RanksOfATraining, ThatGoBackSaveSoonWhenOneIsSentASignal) {
  const PreemptionGuard guard;
  const std::string failures = on_ranks([&](Trainer& trainer) {
    CheckpointerOptions options;
    options.save = save_when::any_of({save_when::every_steps(10), save_when::preempted()});
    options.preemption = trainer.rank == 1 ? &guard : nullptr;
    Checkpointer run(root(), options, trainer.context);
    for (std::uint64_t step = 0; step < 300; ++step) {
      trainer.all.arrive_and_wait();
      save(run, trainer.rank, step);
    }
    run.rewind(10);
    std::uint64_t step = 11;
    for (; step < 300 && !run.is_preempted(); ++step) {
      trainer.all.arrive_and_wait();
      if (step == 13 && trainer.rank == 1) {
        std::raise(SIGTERM);
      }
      save(run, trainer.rank, step);
    }
    EXPECT_TRUE(run.is_preempted());
    EXPECT_LT(step, 200u);
    run.close();
  });

  EXPECT_EQ(failures, "");
}

}  // namespace
}  // namespace cairn
