// SPDX-License-Identifier: Apache-2.0
// Saves of several ranks that fail, and trainings that go on.
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/testing/local_ranks.hpp"
#include "cairn/training/step_options.hpp"

#include "support/fails.hpp"
#include "training/ranks.hpp"

namespace cairn {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kThree;
using testing::ManualClock;
using ::testing::Not;
using testing::RanksOfATraining;
using testing::Trainer;

/// How a save fails, and where.
struct Mishap {
  std::string name;
  std::size_t rank = 0;                                     ///< Where it fails first.
  std::function<void(StepOptions&)> spoil;                  ///< What it does to the options, if anything.
  std::function<Checkpointables(const Tree& state)> items;  ///< What is saved.
  bool is_everywhere = false;  ///< All save the same, which fails on rank 0, whose handler it is.
  bool is_told = false;        ///< Rank 0 asks its response, and the others do not.
};

void PrintTo(const Mishap& mishap, std::ostream* out) {
  *out << mishap.name << " on rank " << mishap.rank;
}

void measure_nameless(StepOptions& options) {
  options.metrics[""] = 0.5;
}

/// Its blocking phase fails.
struct Unstaged {
  static constexpr bool kIsSavedOnly = true;

  Awaitable<Background<>> save(SaveContext /*context*/) const {
    throw std::runtime_error("cannot be staged");
    co_return Background<>();
  }
};

const Unstaged kUnstaged;
const testing::Unsavable kUnsavable;

std::vector<Mishap> mishaps() {
  const auto good = [](const Tree& state) { return Checkpointables{{"state", state}}; };
  const auto twice = [](const Tree& state) { return Checkpointables{{"state", state}, {"state", state}}; };
  const auto other = [](const Tree& state) { return Checkpointables{{"other", state}}; };
  const auto nothing = [](const Tree&) { return Checkpointables{}; };
  const auto unstaged = [](const Tree&) { return Checkpointables{{"state", kUnstaged}}; };
  const auto unsavable = [](const Tree&) { return Checkpointables{{"state", kUnsavable}}; };
  std::vector<Mishap> all;
  for (std::size_t rank = 0; rank < kThree; ++rank) {
    all.push_back({"a metric without a name", rank, measure_nameless, good});
    all.push_back({"one name twice", rank, nullptr, twice});
    all.push_back({"nothing to save", rank, nullptr, nothing});
    all.push_back({"another name", rank, nullptr, other});
  }
  all.push_back({"a handler that fails at once", 0, nullptr, unstaged, true});
  all.push_back({"a handler that fails later", 0, nullptr, unsavable, true});
  all.push_back({"a handler that fails later, which is told", 0, nullptr, unsavable, true, true});
  return all;
}

class RanksAfterAFailure : public RanksOfATraining, public ::testing::WithParamInterface<Mishap> {
 protected:
  /// A training whose fifth step fails. What is thrown is caught: whoever trains goes on.
  void train(Trainer& trainer, SavePolicy policy, bool returns_when_accepted) {
    const Mishap& mishap = GetParam();
    CheckpointerOptions options;
    options.save = std::move(policy);
    std::deque<Tree> states;  // What is not staged yet refers to them.
    Checkpointer run(root(), options, trainer.context);
    for (std::uint64_t step = 0; step < 12; ++step) {
      trainer.all.arrive_and_wait();
      trainer.clock.advance(seconds(1));
      const bool fails = step == 4 && (trainer.rank == mishap.rank || mishap.is_everywhere);
      const Tree& state = states.emplace_back(Tree{{"step", step}});
      const Checkpointables items = fails ? mishap.items(state) : Checkpointables{{"state", state}};
      StepOptions how;
      how.save.return_when_accepted = returns_when_accepted;
      if (fails && mishap.spoil) {
        mishap.spoil(how);
      }
      try {
        const StepResponse response = run.save(step, items, how);
        if (!mishap.is_told || trainer.rank == 0) {
          response.wait();
        }
        const std::lock_guard lock(mutex_);
        tried_[trainer.rank].push_back(step);
      } catch (const Error&) {
        const std::lock_guard lock(mutex_);
        failed_[trainer.rank].push_back(step);
      }
    }
    try {
      run.close();
    } catch (const Error&) {  // Of a save that nobody has asked.
    }
  }

  std::map<std::size_t, std::vector<std::uint64_t>> tried_;
  std::map<std::size_t, std::vector<std::uint64_t>> failed_;
};

TEST_P(RanksAfterAFailure, SaveTheNextStepsTogether) {
  for (const bool returns_when_accepted : {false, true}) {
    std::filesystem::remove_all(root());
    const std::string failures = on_ranks([&](Trainer& trainer) {
      train(
          trainer, [](const SaveMoment& moment) { return moment.step % 2 == 0 || moment.step > 6; },
          returns_when_accepted);
    });

    EXPECT_EQ(failures, "");
    EXPECT_THAT(failed_[0], Contains(4));
    const std::vector<std::uint64_t> steps = on_disk();
    EXPECT_THAT(steps, AllOf(Contains(2), Not(Contains(4)), Contains(8), Contains(11)));
    // Ranks that have not asked may hear of it with the next save, which fails then.
    if (!GetParam().is_told) {
      EXPECT_THAT(steps, ElementsAre(0, 2, 6, 7, 8, 9, 10, 11));
    }
  }
}

TEST_P(RanksAfterAFailure, GoByRank0sClockAgain) {
  const std::string failures =
      on_ranks([&](Trainer& trainer) { train(trainer, save_when::continuously(seconds(2)), false); });

  EXPECT_EQ(failures, "");
  const std::vector<std::uint64_t> steps = on_disk();
  EXPECT_THAT(steps, AllOf(Contains(0), Contains(2), Not(Contains(4)), Contains(::testing::Ge(7u))));
}

INSTANTIATE_TEST_SUITE_P(Mishaps, RanksAfterAFailure, ::testing::ValuesIn(mishaps()));

TEST_F(RanksOfATraining, WhoAskNoResponseSaveAgainAfterAFailure) {
  std::array<std::vector<std::uint64_t>, kThree> refused;
  std::array<std::string, kThree> told;
  const std::string failures = on_ranks([&](Trainer& trainer) {
    CheckpointerOptions options;
    options.save = save_when::every_steps(1);
    std::deque<Tree> states;
    Checkpointer run(root(), options, trainer.context);
    for (std::uint64_t step = 0; step < 10; ++step) {
      trainer.all.arrive_and_wait();
      StepOptions how;
      how.save.return_when_accepted = true;
      if (step == 3 && trainer.rank == 1) {
        measure_nameless(how);
        trainer.all.arrive_and_wait();  // The others' saves are accepted by now, and fail in the background.
      }
      try {
        run.save(step, {{"state", states.emplace_back(Tree{{"step", step}})}}, how);
      } catch (const Error& error) {
        told[trainer.rank] += error.what();
        refused[trainer.rank].push_back(step);
      }
      if (step == 3 && trainer.rank != 1) {
        trainer.all.arrive_and_wait();
      }
    }
    try {
      run.close();
    } catch (const Error& error) {
      told[trainer.rank] += error.what();
    }
  });

  EXPECT_EQ(failures, "");
  EXPECT_THAT(refused[0], ElementsAre(4));
  EXPECT_THAT(refused[2], ElementsAre(4));
  EXPECT_THAT(on_disk(), ElementsAre(0, 1, 2, 5, 6, 7, 8, 9));
  EXPECT_THAT(
      told[1],
      HasSubstr("told of an earlier failure instead: step 3"));  // By the call of step 4, or at the end.
}

TEST_F(RanksOfATraining, GoOnAfterAStepThatIsThere) {
  save_alone("4");
  std::array<std::vector<std::uint64_t>, kThree> refused;
  const std::string failures = on_ranks([&](Trainer& trainer) {
    CheckpointerOptions options;
    options.save = [](const SaveMoment&) { return true; };
    Checkpointer run(root(), options, trainer.context);
    for (std::uint64_t step = 1; step < 8; ++step) {
      trainer.all.arrive_and_wait();
      try {
        save(run, trainer.rank, step);
      } catch (const Error&) {
        refused[trainer.rank].push_back(step);
      }
    }
    run.close();
  });

  EXPECT_EQ(failures, "");
  EXPECT_THAT(saved(), ElementsAre(1, 2, 3, 5, 6, 7));
  EXPECT_THAT(refused, ::testing::Each(ElementsAre(4)));
}

TEST_F(RanksOfATraining, HearWhatAPolicyThrowsAtItsStep) {
  std::array<std::string, kThree> thrown;
  const std::string failures = on_ranks([&](Trainer& trainer) {
    CheckpointerOptions options;
    options.save = [](const SaveMoment& moment) {
      if (moment.step == 3) {
        throw std::runtime_error("no idea");
      }
      return true;
    };
    Checkpointer run(root(), options, trainer.context);
    for (std::uint64_t step = 0; step < 6; ++step) {
      trainer.all.arrive_and_wait();
      trainer.clock.advance(seconds(1));
      try {
        save(run, trainer.rank, step);
      } catch (const Error& error) {
        thrown[trainer.rank] += std::to_string(step) + ": " + error.what();
      }
    }
    run.close();
  });

  EXPECT_EQ(failures, "");
  EXPECT_THAT(saved(), ElementsAre(0, 1, 2, 4, 5));
  EXPECT_THAT(thrown, ::testing::Each(AllOf(HasSubstr("3: "), HasSubstr("no idea"))));
}

TEST_F(RanksOfATraining, NameRank0WhenItHasEnded) {
  testing::LocalRanks job(kThree);
  const std::string failures = testing::failures_on_ranks(job, [&](const auto& coordinator) {
    ContextOptions options = with_clock(clock_);
    options.coordinator = coordinator;
    Context context(options);
    CheckpointerOptions how;
    how.save = [](const SaveMoment&) { return false; };
    Checkpointer run(root(), how, context);
    run.save(6, {});
    if (coordinator->rank() == 1) {
      std::future<void> next = std::async(std::launch::async, [&] { run.save(7, {}); });  // Rank 0 has ended.
      while (next.wait_for(std::chrono::milliseconds(2)) != std::future_status::ready) {
        clock_->advance(seconds(1));
      }
      next.get();
    }
  });

  EXPECT_THAT(failures, AllOf(HasSubstr("rank 1: "), HasSubstr("rank 0 has closed its coordinator")));
}

TEST_F(RanksOfATraining, DoNotResumeWithoutARankThatDoesNotAnswer) {
  testing::LocalRanks job(2);
  coord::CoordinatorOptions soon;
  soon.heartbeat = std::chrono::milliseconds(20);
  soon.lost_after = std::chrono::milliseconds(100);
  ContextOptions options = with_clock(std::make_shared<ManualClock>());
  options.coordinator = std::make_shared<coord::Coordinator>(job.transport(1), soon);  // There is no rank 0.
  Context context(options);
  Checkpointer run(root(), {}, context);

  EXPECT_THAT([&] { static_cast<void>(run.resume()); },
              testing::Fails(Errc::peer_lost, HasSubstr("rank 0 is lost: ")));
  EXPECT_THAT([&] { static_cast<void>(run.resume()); },
              testing::Fails(Errc::peer_lost, HasSubstr("rank 0 is lost")));
}

TEST_F(RanksOfATraining, SaveBecauseOfASignalWhenTheyForceEachStep) {
  const PreemptionGuard guard;
  const std::string failures = on_ranks([&](Trainer& trainer) {
    CheckpointerOptions options;
    options.save = save_when::preempted();
    options.preemption = trainer.rank == 1 ? &guard : nullptr;
    Checkpointer run(root(), options, trainer.context);
    for (std::uint64_t step = 0; step < 60 && !run.is_preempted(); ++step) {
      trainer.all.arrive_and_wait();
      if (step == 3 && trainer.rank == 1) {
        std::raise(SIGTERM);
      }
      StepOptions how;
      how.force = true;
      run.save(step, {{"state", tree_}}, how);
    }
    EXPECT_TRUE(run.is_preempted());
    run.close();
  });

  EXPECT_EQ(failures, "");
}

TEST_F(RanksOfATraining, WhoseSaveBecauseOfASignalFailsTryAgain) {
  const PreemptionGuard guard;
  std::atomic<int> failed{0};
  const std::string failures = on_ranks([&](Trainer& trainer) {
    CheckpointerOptions options;
    options.save = save_when::preempted();
    options.preemption = trainer.rank == 0 ? &guard : nullptr;
    Checkpointer run(root(), options, trainer.context);
    for (std::uint64_t step = 0; step < 4000; ++step) {
      trainer.all.arrive_and_wait();
      if (step == 3 && trainer.rank == 0) {
        std::raise(SIGTERM);
      }
      StepOptions how;
      if (trainer.rank == 1 && !run.is_preempted()) {
        measure_nameless(how);
      }
      try {
        if (run.save(step, {{"state", tree_}}, how)) {
          const std::lock_guard lock(mutex_);
          saved_[trainer.rank].push_back(step);
        }
      } catch (const Error&) {
        ++failed;
      }
    }
    EXPECT_TRUE(run.is_preempted());
    run.close();
  });

  EXPECT_EQ(failures, "");
  EXPECT_EQ(failed, 3);
  EXPECT_EQ(saved().size(), 1u);
  EXPECT_THAT(on_disk(), saved());
}

TEST_F(RanksOfATraining, NeedNoStepAfterTheLastThatHasANumber) {
  constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();
  const PreemptionGuard guard;
  std::raise(SIGTERM);
  std::filesystem::create_directories(root());
  for (const bool asks_time : {false, true}) {
    saved_.clear();
    const std::string failures = on_ranks([&](Trainer& trainer) {
      CheckpointerOptions options;
      options.save = asks_time ? SavePolicy([](const SaveMoment&) { return true; }) : save_when::asked();
      options.preemption = &guard;
      Checkpointer run(root() / std::to_string(asks_time), options, trainer.context);
      for (const std::uint64_t step : {kLast - 1, kLast}) {
        trainer.all.arrive_and_wait();
        save(run, trainer.rank, step);
      }
      run.close();
    });

    EXPECT_EQ(failures, "");
    EXPECT_THAT(saved(), ElementsAre(kLast - 1, kLast));
  }
}

}  // namespace
}  // namespace cairn
