// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "async/internal/event.hpp"
#include "io/faulty_syscalls.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/held_syscalls.hpp"
#include "training/disks.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using ::testing::AllOf;
using testing::Checkpointers;
using ::testing::ElementsAre;
using testing::Fails;
using testing::FailsWithErrno;
using testing::FaultyCheckpointers;
using ::testing::HasSubstr;
using testing::HeldCheckpointers;
using testing::latest_after;

TEST_F(Checkpointers, RemoveWhatThePolicyDoesNotKeep) {
  const auto run = make(keeping(keep::any_of({keep::latest(2), keep::every_steps(4)})));
  for (std::uint64_t step = 0; step < 8; ++step) {
    save(*run, step);
  }
  run->close();

  EXPECT_THAT(run->steps(), ElementsAre(0, 4, 6, 7));
  EXPECT_THAT(*StepDirectory(root(), {}, *context_).steps(), ElementsAre(0, 4, 6, 7));
}

TEST_F(Checkpointers, KeepTheBest) {
  const auto run = make(keeping(keep::best("loss", 1, Prefer::lower)));
  for (std::uint64_t step = 1; step <= 5; ++step) {
    save(*run, step, Metrics{{"loss", step == 2 ? 0.1 : 1.0}});
  }
  run->close();

  EXPECT_THAT(run->steps(), ElementsAre(2, 5));
}

TEST_F(Checkpointers, APolicyThatKeepsNothingLeavesTheNewest) {
  const auto run = make(keeping(keep::latest(0)));
  save(*run, 1);
  save(*run, 2);
  run->close();

  EXPECT_THAT(run->steps(), ElementsAre(2));
}

TEST_F(Checkpointers, SeeAndRemoveStepsOfOthers) {
  const auto run = make(keeping(keep::latest(1)));
  save_alone("3");
  save(*run, 4);
  run->close();

  EXPECT_THAT(run->steps(), ElementsAre(4));
  EXPECT_FALSE(fs::exists(root() / "3"));
}

TEST_F(Checkpointers, NeverRemoveWhatIsNotAStep) {
  save_alone("final");
  fs::create_directory(root() / "1");
  const auto run = make(keeping(keep::latest(1)));
  save(*run, 2);
  save(*run, 3);
  run->close();

  EXPECT_TRUE(is_checkpoint(root() / "final", {}, *context_));
  EXPECT_TRUE(fs::exists(root() / "1"));
}

TEST_F(Checkpointers, NeverRemoveWhatIsPinnedUntilItIsNot) {
  const auto run = make(keeping(keep::latest(1)));
  save(*run, 1).wait();
  run->pin(1);
  save(*run, 2);
  save(*run, 3);
  run->wait();
  EXPECT_THAT(run->steps(), ElementsAre(1, 3));
  EXPECT_THAT([&] { run->remove(1); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("step 1"), HasSubstr("pinned"))));

  run->unpin(1);
  save(*run, 4);
  run->wait();

  EXPECT_THAT(run->steps(), ElementsAre(4));
}

TEST_F(Checkpointers, WhatIsPinnedIsNotOverwrittenUntilItIsNot) {
  const auto run = make();
  save(*run, 1, Metrics{{"loss", 1}}).wait();
  StepDirectory(root(), {}, *context_).pin(1);  // By another program.
  StepOptions options(Metrics{{"loss", 2}});
  options.save.overwrite = true;

  EXPECT_THAT([&] { save(*run, 1, options); },
              Fails(Errc::already_exists, AllOf(HasSubstr("step 1 is pinned"), HasSubstr("unpin"))));
  EXPECT_EQ(run->info(1).metrics.at("loss"), 1);
  run->unpin(1);
  save(*run, 1, options).wait();
  EXPECT_EQ(run->info(1).metrics.at("loss"), 2);
}

TEST_F(Checkpointers, APinOfAStepThatIsGoneKeepsNobodyFromSavingIt) {
  const auto run = make();
  save(*run, 1).wait();
  run->pin(1);
  fs::remove_all(root() / "1");
  StepOptions options;
  options.save.overwrite = true;

  save(*run, 1, options).wait();

  EXPECT_TRUE(run->info(1).is_pinned);
}

TEST_F(Checkpointers, PinsOfOthersCount) {
  const auto run = make(keeping(keep::latest(1)));
  save(*run, 1).wait();
  run->wait();
  StepDirectory(root(), {}, *context_).pin(1);
  save(*run, 2);
  run->wait();

  EXPECT_THAT(run->steps(), ElementsAre(1, 2));
}

TEST_F(Checkpointers, WhereTheNewestIsDamagedTheNewestSoundIsKept) {
  for (const char* step : {"1", "2", "3"}) {
    save_alone(step);
  }
  alter(3);
  const auto run = make(keeping(keep::latest(0)));
  EXPECT_THAT([&] { static_cast<void>(run->load(3)); }, Fails(Errc::checksum_mismatch));
  save(*run, 0, forced()).wait();
  run->wait();

  EXPECT_THAT(run->steps(), ElementsAre(0, 2, 3));
}

TEST_F(Checkpointers, WhatALoadInTheBackgroundHasFoundDamagedIsKnownToBe) {
  for (const bool is_awaited : {false, true}) {
    fs::remove_all(root());
    for (const char* step : {"1", "2", "3"}) {
      save_alone(step);
    }
    alter(3);
    const auto run = make(keeping(keep::latest(0)));
    EXPECT_THAT(
        [&] {
          const StepLoadResponse loading = run->load_async(3);
          static_cast<void>(is_awaited ? testing::run(loading.loaded()) : loading.wait());
        },
        Fails(Errc::checksum_mismatch));
    save(*run, 0, forced()).wait();
    run->wait();

    EXPECT_THAT(run->steps(), ElementsAre(0, 2, 3));
  }
}

TEST_F(Checkpointers, AStepThatLacksAFileIsKnownToBeDamaged) {
  for (const bool is_awaited : {false, true}) {
    fs::remove_all(root());
    for (const char* step : {"1", "2", "3"}) {
      save_alone(step);
    }
    for (const auto& entry : fs::directory_iterator(root() / "3/state")) {
      fs::remove(entry.path());
    }
    const auto run = make(keeping(keep::latest(0)));
    EXPECT_ANY_THROW({
      const StepLoadResponse loading = run->load_async(3);
      static_cast<void>(is_awaited ? testing::run(loading.loaded()) : loading.wait());
    });
    save(*run, 0, forced()).wait();
    run->wait();

    EXPECT_THAT(run->steps(), ElementsAre(0, 2, 3));
  }
}

TEST_F(Checkpointers, WhatWasAskedForInVainIsNoDamage) {
  for (const char* step : {"1", "2", "3"}) {
    save_alone(step);
  }
  const auto run = make(keeping(keep::latest(0)));
  EXPECT_THAT([&] { static_cast<void>(run->load(3, {"model"})); }, Fails(Errc::not_found));
  EXPECT_THAT([&] { static_cast<void>(run->load_async(3, {"model"}).wait()); }, Fails(Errc::not_found));
  save(*run, 0, forced()).wait();
  run->wait();

  EXPECT_THAT(run->steps(), ElementsAre(0, 3));
}

TEST_F(Checkpointers, APolicyThatFailsRemovesNothingAndIsNamedByClose) {
  const auto run = make(keeping(
      KeepPolicy("mine", false, [](std::span<const StepInfo>, CommitTime) { return std::vector<bool>(); })));
  save(*run, 1);
  save(*run, 2);

  EXPECT_THAT([&] { run->close(); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr(root().string()), HasSubstr("'mine'"))));
  run->close();
  EXPECT_THAT(run->steps(), ElementsAre(1, 2));
}

TEST_F(Checkpointers, ASavePolicyThatFailsIsThrownBySave) {
  const auto run = make(when([](const SaveMoment&) -> bool { throw std::runtime_error("no idea"); }));

  EXPECT_THAT([&] { save(*run, 1); },
              Fails(Errc::handler_failed, AllOf(HasSubstr(root().string()), HasSubstr("no idea"))));
}

TEST_F(Checkpointers, RemoveAStepWhenTheyAreTold) {
  const auto run = make();
  save(*run, 1).wait();
  save(*run, 2).wait();

  run->remove(1);

  EXPECT_THAT(run->steps(), ElementsAre(2));
  EXPECT_FALSE(fs::exists(root() / "1"));
  EXPECT_THAT([&] { run->remove(1); }, Fails(Errc::not_found, HasSubstr("step 1")));
}

TEST_F(Checkpointers, AFailureToRemoveThatALaterOneHasMadeGoodIsNotTold) {
  const auto run = make(keeping(latest_after([calls = 0]() mutable {
    if (++calls == 2) {
      throw std::runtime_error("not now");
    }
  })));
  for (std::uint64_t step = 1; step <= 3; ++step) {
    save(*run, step);
  }
  run->close();

  EXPECT_THAT(run->steps(), ElementsAre(3));
}

TEST_F(HeldCheckpointers, SkipAStepWhileOneIsBeingSavedWhenTheyAreAsked) {
  const auto run = make();
  disk_->hold(testing::Held::rename);
  save(*run, 1);
  StepOptions options;
  options.skip_if_busy = true;

  EXPECT_FALSE(save(*run, 2, options));
  disk_->let_go();
  run->wait();
  EXPECT_TRUE(save(*run, 3, options));
  run->close();
  EXPECT_THAT(run->steps(), ElementsAre(1, 3));
}

TEST_F(HeldCheckpointers, ContinuousSavesWaitForNoOther) {
  const auto run = make(when(save_when::continuously()));
  disk_->hold(testing::Held::rename);

  EXPECT_TRUE(save(*run, 1));
  EXPECT_FALSE(save(*run, 2));
  disk_->let_go();
  run->wait();
  EXPECT_TRUE(save(*run, 3));
}

TEST_F(HeldCheckpointers, ACloseThatDoesNotEndNamesTheStepAndLosesNothing) {
  const auto run = make();
  disk_->hold(testing::Held::rename);
  save(*run, 1);

  EXPECT_THAT([&] { run->close(seconds(0)); }, Fails(Errc::still_running, HasSubstr("step 1")));
  EXPECT_THAT([&] { save(*run, 2); }, Fails(Errc::closed));
  disk_->let_go();
  run->close();
  EXPECT_EQ(stored_step(run->load(1)), 1u);
}

TEST_F(HeldCheckpointers, TheDeadlineOfAStepCountsWhileItWaitsForTheOneBefore) {
  const auto run = make();
  disk_->hold(testing::Held::rename, 1);
  save(*run, 1);
  StepOptions options;
  options.save.deadline = std::chrono::milliseconds(500);
  std::future<void> second = std::async(std::launch::async, [&] { save(*run, 2, options).wait(); });
  for (int i = 0; i < 10'000; ++i) {
    if (second.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready) {
      break;
    }
    clock_->advance(std::chrono::milliseconds(100));
  }
  disk_->let_go();

  EXPECT_THAT([&] { second.get(); }, Fails(Errc::timed_out, HasSubstr("step 2")));
  run->close();
  EXPECT_THAT(run->steps(), ElementsAre(1));
  EXPECT_EQ(std::distance(fs::directory_iterator(root()), fs::directory_iterator()), 1);
}

TEST_F(FaultyCheckpointers, DoNotLookAtTheirRootToCloseWhereNothingIsLeftToDo) {
  const auto run = make();
  save(*run, 1).wait();
  run->wait();
  disk_->plan({io::Call::open, 1, io::kForEver, -EIO});

  run->close();

  EXPECT_EQ(disk_->hits(), 0);
}

TEST_F(HeldCheckpointers, WaitAtTheirEndForTheLookOfASaveWhoseDeadlineHasPassed) {
  std::atomic<bool> is_gone{false};
  std::atomic<bool> is_asked_late{false};
  auto run = make(keeping({"mine", false, [&](std::span<const StepInfo> steps, CommitTime) {
                             is_asked_late = is_asked_late || is_gone;
                             return std::vector<bool>(steps.size(), true);
                           }}));
  save(*run, 2).wait();
  run->wait();
  disk_->hold(testing::Held::open, 1);
  StepOptions options;
  options.save.deadline = std::chrono::milliseconds(500);
  std::future<void> lower = std::async(std::launch::async, [&] { save(*run, 1, options); });
  ASSERT_TRUE(disk_->holds());
  clock_->advance(std::chrono::seconds(1));
  EXPECT_THAT([&] { lower.get(); }, Fails(Errc::timed_out, HasSubstr("step 1")));

  std::future<void> ending = std::async(std::launch::async, [&] {
    run.reset();
    is_gone = true;
  });
  EXPECT_EQ(ending.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  disk_->let_go();
  ending.get();
  EXPECT_FALSE(is_asked_late);
}

TEST_F(HeldCheckpointers, AStepThatIsBeingLoadedIsNotRemoved) {
  const auto run = make(keeping(keep::latest(1)));
  save(*run, 1).wait();
  run->wait();
  {
    const StepLoadResponse loading = run->load_async(1);
    save(*run, 2);
    run->wait();
    EXPECT_THAT(run->steps(), ElementsAre(1, 2));
    EXPECT_THAT([&] { run->remove(1); }, Fails(Errc::invalid_argument, HasSubstr("loaded")));
    EXPECT_EQ(stored_step(loading.wait()), 1u);
  }
  save(*run, 3);
  run->wait();
  EXPECT_THAT(run->steps(), ElementsAre(3));
}

TEST_F(HeldCheckpointers, TwoOfAProcessKnowWhatTheOtherLoads) {
  const auto run = make(keeping(keep::latest(1)));
  save(*run, 1).wait();
  run->wait();
  const auto reader = make();
  const StepLoadResponse loading = reader->load_async(1);
  save(*run, 2);
  run->wait();

  EXPECT_THAT(run->steps(), ElementsAre(1, 2));
}

/// Whatever is removed takes long, from the second save on.
class SlowlyRemovingCheckpointers : public HeldCheckpointers {
 protected:
  [[nodiscard]] std::unique_ptr<Checkpointer> make_slow(SavePolicy policy = save_when::asked()) {
    CheckpointerOptions options = keeping(latest_after([this, calls = 0]() mutable {
      if (++calls == 2) {
        disk_->hold(testing::Held::unlink, 1);
      }
    }));
    options.save = std::move(policy);
    auto run = make(std::move(options));
    save(*run, 1).wait();
    run->wait();
    save(*run, 2).wait();
    EXPECT_TRUE(disk_->holds());
    return run;
  }
};

TEST_F(SlowlyRemovingCheckpointers, KnowWhatIsSavedMeanwhile) {
  const auto run = make_slow(save_when::continuously());

  save(*run, 3, forced());  // Nobody asks its response.
  bool is_over = false;
  for (int i = 0; i < 10'000 && !is_over; ++i) {
    static_cast<void>(async::Event().wait_for(std::chrono::milliseconds(1)));
    is_over = run->should_save(4);  // A little after its commit.
  }

  EXPECT_TRUE(is_over);
  EXPECT_EQ(run->latest(), 3u);
  EXPECT_THAT([&] { run->close(seconds(0)); },
              Fails(Errc::still_running, AllOf(HasSubstr("old steps"), HasSubstr("removed"))));
  clock_->advance(seconds(100));
  EXPECT_EQ(run->period(seconds(1000)).costs.durable, seconds(0));
  disk_->let_go();
  run->close();
  EXPECT_THAT(run->steps(), ElementsAre(3));
}

TEST_F(SlowlyRemovingCheckpointers, LeaveALowerStepUntilItsOwnTurn) {
  const auto run = make_slow();
  save(*run, 9).wait();
  save(*run, 0, forced()).wait();  // The steps of 9 are removed by then.

  disk_->let_go();
  run->close();

  EXPECT_THAT(run->steps(), ElementsAre(0, 9));
}

TEST_F(HeldCheckpointers, EndInTimeWhereALinkDoesNot) {
  CheckpointerOptions options = keeping(latest_after([this] { disk_->hold(testing::Held::link, 1); }));
  options.links.latest = true;
  options.close_timeout = seconds(1);
  auto run = make(std::move(options));
  save(*run, 1).wait();
  ASSERT_TRUE(disk_->holds());
  EXPECT_THAT([&] { run->close(seconds(0)); }, Fails(Errc::still_running, HasSubstr("old steps")));

  std::future<void> end = std::async(std::launch::async, [&run] { run.reset(); });
  while (end.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    ASSERT_LT(clock_->steady_now().time_since_epoch(), std::chrono::hours(2));
    clock_->advance(std::chrono::milliseconds(100));
  }

  EXPECT_EQ(disk_->held(), 1);
}

TEST_F(FaultyCheckpointers, WhatCannotBeRemovedIsToldByCloseAndTriedAgain) {
  const auto run = make(keeping(latest_after([this, calls = 0]() mutable {
    io::Fault fault;
    fault.call = io::Call::rename;
    fault.count = io::kForEver;
    fault.result = -EACCES;
    ++calls == 2 ? disk_->plan(fault) : disk_->clear();
  })));
  save(*run, 1).wait();
  save(*run, 2).wait();

  EXPECT_THAT([&] { run->wait(); }, FailsWithErrno(EACCES, HasSubstr("step 1 was not removed")));
  run->wait();
  EXPECT_THAT(run->steps(), ElementsAre(1, 2));
  disk_->clear();
  save(*run, 3);
  run->close();
  EXPECT_THAT(run->steps(), ElementsAre(3));
}

TEST_F(FaultyCheckpointers, WhatCannotBeRemovedIsToldToWhomItConcerns) {
  std::vector<std::string> told;
  CheckpointerOptions options = keeping(latest_after([this] {
    io::Fault fault;
    fault.call = io::Call::rename;
    fault.result = -EIO;
    disk_->plan(fault);
  }));
  options.on_retention_failure = [&told](const std::exception_ptr& failure) {
    told.push_back(describe(failure));
  };
  const auto run = make(std::move(options));
  save(*run, 1).wait();
  run->wait();
  disk_->clear();
  save(*run, 2);
  run->close();

  // After the save, and again by `close`, which has tried it again.
  EXPECT_THAT(told, ElementsAre(HasSubstr("step 1 was not removed"), HasSubstr("step 1 was not removed")));
}

TEST_F(FaultyCheckpointers, AStepThatWasOverwrittenWithoutAnExchangeIsOneStep) {
  disk_->lacks_rename_modes = true;
  const auto run = make(keeping(keep::latest(1)));
  save(*run, 1).wait();
  StepOptions options(Metrics{{"loss", 2}});
  options.save.overwrite = true;
  save(*run, 1, options);
  run->wait();
  ASSERT_TRUE(fs::exists(root() / "1.g2"));

  EXPECT_THAT(run->info(1).metrics, ElementsAre(std::pair("loss", 2)));
  EXPECT_EQ(stored_step(run->load(1)), 1u);
  run->pin(1);
  EXPECT_TRUE(make()->info(1).is_pinned);
  run->unpin(1);
  save(*run, 2);
  run->close();
  EXPECT_THAT(run->steps(), ElementsAre(2));
  EXPECT_FALSE(fs::exists(root() / "1.g2"));
}

/// Counts what is read.
class CountedReads final : public testing::ForwardingSyscalls {
 public:
  std::atomic<int> reads{0};

 private:
  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    reads += call.kind == testing::CallKind::read ? 1 : 0;
    return call.make();
  }
};

TEST_F(Checkpointers, ReadNoManifestWhereNothingIsToGo) {
  for (int step = 0; step < 20; ++step) {
    save_alone(std::to_string(step));
  }
  const auto disk = std::make_shared<CountedReads>();
  ContextOptions options = small();
  options.syscalls = disk;
  const Context context(options);
  const auto reads_of_a_save = [&](KeepPolicy policy, std::uint64_t step) {
    Checkpointer run(root(), keeping(std::move(policy)), context);
    const int before = disk->reads;
    save(run, step).wait();
    run.wait();
    return disk->reads - before;
  };

  const int alone = reads_of_a_save(keep::all(), 20);

  EXPECT_EQ(reads_of_a_save(keep::latest(100), 21), alone);
  EXPECT_GE(reads_of_a_save(keep::latest(22), 22), alone + 22);  // All, as one goes.
}

TEST_F(FaultyCheckpointers, AskTheSystemForNothingAtAStepThatIsDeclined) {
  for (const bool asks_time : {false, true}) {
    CheckpointerOptions options =
        when(asks_time ? save_when::continuously(std::chrono::hours(1)) : save_when::every_steps(100'000));
    options.keep = keep::latest(1);
    const auto run = make(std::move(options));
    StepOptions first;
    first.force = true;
    first.save.overwrite = true;
    save(*run, 0, first);
    run->wait();
    const int calls_before = disk_->calls();
    for (std::uint64_t step = 1; step < 1000; ++step) {
      clock_->advance(seconds(1));
      EXPECT_FALSE(save(*run, step));
    }

    EXPECT_EQ(disk_->calls(), calls_before);
  }
}

TEST_F(FaultyCheckpointers, ARootThatMayNotBeWrittenIsToldBySave) {
  const auto run = make();
  io::Fault fault;
  fault.call = io::Call::make_directory;
  fault.count = io::kForEver;
  fault.result = -EACCES;
  disk_->plan(fault);

  EXPECT_THAT([&] { save(*run, 1).wait(); }, FailsWithErrno(EACCES, HasSubstr("run")));
  run->close();
}

}  // namespace
}  // namespace cairn
