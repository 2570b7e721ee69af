// SPDX-License-Identifier: Apache-2.0
// Trainings of several ranks whose transports have no threads, as with MPI_THREAD_FUNNELED: what waits lends its own.
#include <atomic>
#include <barrier>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cairn/api/maintain.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/training/step_options.hpp"

#include "coord/lent_ranks.hpp"
#include "support/fails.hpp"
#include "training/fixture.hpp"

namespace cairn {

namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::LentRanks;
using testing::LentThreads;
using Steps = std::vector<std::uint64_t>;

constexpr std::size_t kRanks = 3;

class LentTraining : public testing::TrainingTest, public ::testing::WithParamInterface<LentThreads> {
 protected:
  struct Rank {
    std::size_t number;
    const Context& context;
    coord::Coordinator& coordinator;
  };

  /// Calls `act` on a thread for each rank, with a context that was made there. What hangs would hang for ever:
  /// `close_timeout` and deadlines of tests are short. Returns what each threw; empty where nothing.
  std::vector<std::string> on_all(const std::function<void(const Rank& rank)>& act) {
    LentRanks network(kRanks, GetParam());
    std::vector<std::string> failures(kRanks);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          ContextOptions options = small();
          options.coordinator = std::make_shared<coord::Coordinator>(network.transport(rank));
          const Context context(options);
          act({rank, context, *options.coordinator});
        } catch (...) {
          failures[rank] = describe(std::current_exception());
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(network.violations(), 0u);
    return failures;
  }

  /// Of a job in which a save that nobody lends a thread to ends after a while.
  static CheckpointerOptions soon() {
    CheckpointerOptions options;
    options.close_timeout = 20s;
    return options;
  }

  static StepResponse save(Checkpointer& run, std::uint64_t step) {
    StepOptions how;
    how.save.deadline = 20s;
    const Tree state = {{"step", step}};
    return run.save(step, {{"state", state}}, how);
  }

  [[nodiscard]] Steps on_disk() const { return *StepDirectory(root(), {}, *context_).steps(); }
};

TEST_P(LentTraining, ItsLastStepIsSavedByClose) {
  const std::vector<std::string> failures = on_all([&](const Rank& rank) {
    Checkpointer run(root(), soon(), rank.context);
    save(run, 1);
    run.close();
  });

  EXPECT_THAT(failures, ::testing::Each(""));
  EXPECT_THAT(on_disk(), ElementsAre(1));
}

TEST_P(LentTraining, ItsLastStepIsSavedByWait) {
  const std::vector<std::string> failures = on_all([&](const Rank& rank) {
    Checkpointer run(root(), soon(), rank.context);
    save(run, 1);
    run.wait();
  });

  EXPECT_THAT(failures, ::testing::Each(""));
  EXPECT_THAT(on_disk(), ElementsAre(1));
}

TEST_P(LentTraining, ItsLastStepIsSavedByItsEnd) {
  const std::vector<std::string> failures = on_all([&](const Rank& rank) {
    Checkpointer run(root(), soon(), rank.context);
    save(run, 1);
  });

  EXPECT_THAT(failures, ::testing::Each(""));
  EXPECT_THAT(on_disk(), ElementsAre(1));
}

TEST_P(LentTraining, SavesGoesBackToWhatItHasSavedAndKeepsWhatItIsTold) {
  const std::vector<std::string> failures = on_all([&](const Rank& rank) {
    CheckpointerOptions options = soon();
    options.keep = keep::latest(1);
    {
      Checkpointer run(root(), options, rank.context);
      for (std::uint64_t step = 1; step <= 3; ++step) {
        save(run, step);  // Waits for the one before.
      }
    }
    Checkpointer run(root(), options, rank.context);
    const std::optional<Resumed> resumed = run.resume({{"state"}});
    if (!resumed || resumed->step != 3) {
      throw std::runtime_error("went on from another step");
    }
    save(run, 4);
    run.wait();
  });

  EXPECT_THAT(failures, ::testing::Each(""));
  EXPECT_THAT(on_disk(), ElementsAre(4));
}

TEST_P(LentTraining, GoesBackTogether) {
  const std::vector<std::string> failures = on_all([&](const Rank& rank) {
    Checkpointer run(root(), soon(), rank.context);
    for (std::uint64_t step = 1; step <= 3; ++step) {
      save(run, step);
    }
    run.rewind(1);
    if (run.latest() != 1u) {
      throw std::runtime_error("sees steps that were given up");
    }
    save(run, 2);
    run.close();
  });

  EXPECT_THAT(failures, ::testing::Each(""));
  EXPECT_THAT(on_disk(), ElementsAre(1, 2));
}

TEST_P(LentTraining, SavesWhenItIsToldToEnd) {
  const PreemptionGuard guard;
  std::barrier all(kRanks);
  const std::vector<std::string> failures = on_all([&](const Rank& rank) {
    CheckpointerOptions options = soon();
    options.save = save_when::preempted();
    options.preemption = &guard;
    options.preemption_margin = 5;
    Checkpointer run(root(), options, rank.context);
    for (std::uint64_t step = 1; step < 100 && !run.is_preempted(); ++step) {
      all.arrive_and_wait();
      if (step == 3 && rank.number == 2) {
        std::raise(SIGTERM);
      }
      save(run, step);
      rank.coordinator.progress();
    }
    run.close();
  });

  EXPECT_THAT(failures, ::testing::Each(""));
  EXPECT_EQ(on_disk().size(), 1u);
}

TEST_P(LentTraining, ARemovalWaitsForASaveOfTheSameStep) {
  const std::vector<std::string> failures = on_all([&](const Rank& rank) {
    SaveOptions options;
    options.deadline = 20s;
    const Tree state = {{"step", 1}};
    const AsyncResponse saving = save_async(root() / "1", state, options, rank.context);
    if (rank.number == 0) {
      remove_checkpoint(root() / "1", {}, rank.context);
    }
    saving.wait();
  });

  EXPECT_THAT(failures, ::testing::Each(""));
  EXPECT_THAT(on_disk(), ElementsAre());
}

TEST_P(LentTraining, ACloseThatIsOverSaysForWhomItHasWaited) {
  std::atomic<bool> has_closed = false;
  const std::vector<std::string> failures = on_all([&](const Rank& rank) {
    Checkpointer run(root(), soon(), rank.context);
    const StepResponse saving = save(run, 1);
    if (rank.number == 2) {
      while (!has_closed) {  // It computes.
        std::this_thread::sleep_for(1ms);
      }
    } else if (rank.number == 1) {
      saving.wait();
    } else {
      EXPECT_THAT([&] { run.close(50ms); },
                  Fails(Errc::still_running, AllOf(HasSubstr("step 1 of"), HasSubstr("waits for rank"))));
      has_closed = true;
    }
    run.wait();
  });

  EXPECT_THAT(failures, ::testing::Each(""));
  EXPECT_THAT(on_disk(), ElementsAre(1));
}

INSTANTIATE_TEST_SUITE_P(Threads, LentTraining,
                         ::testing::Values(LentThreads::funneled, LentThreads::serialized),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace cairn
