// SPDX-License-Identifier: Apache-2.0
// Disks that do not take steps, and a memory that takes only a part of one.
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "flash/failing_calls.hpp"
#include "flash/fixture.hpp"
#include "flash/internal/run_images.hpp"
#include "flash/steps.hpp"
#include "store/internal/checkpoint_lock.hpp"
#include "support/fails.hpp"
#include "support/manual_clock.hpp"

namespace cairn::flash {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;

class FlashDisk : public FlashTest {
 protected:
  void start_with(std::shared_ptr<FailingCalls> calls, std::shared_ptr<Clock> clock = nullptr) {
    ContextOptions how = telling(this);
    how.syscalls = std::move(calls);
    how.clock = std::move(clock);
    start_in(std::move(how));
  }
};

/// What the disk says: an errno; 0: its directory is away.
class FlashDisks : public FlashDisk, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    FlashDisk::SetUp();
    if (!IsSkipped()) {
      options_.disk.save = save_when::every_steps(2);
      start_with(calls_, clock_);
    }
  }

  void refuse() {
    if (GetParam() == 0) {
      fs::rename(root(), directory_ / "away");
      testing::write_text(root(), "");
    }
    calls_->refusal = GetParam();
  }
  void accept() {
    if (GetParam() == 0) {
      fs::remove(root());
      fs::rename(directory_ / "away", root());
    }
    calls_->refusal = 0;
  }
  [[nodiscard]] bool is_told() const {
    for (int looks = 0; told_ == 0 && looks < 5000; ++looks) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return told_ == 1;
  }

  const std::shared_ptr<FailingCalls> calls_ = std::make_shared<FailingCalls>(root());
  const std::shared_ptr<testing::ManualClock> clock_ = std::make_shared<testing::ManualClock>();
};

TEST_P(FlashDisks, ThatTakeNothingAreTriedAgainAndToldOnce) {
  refuse();
  const FlashResponse response = save(2);
  ASSERT_TRUE(is_told());
  EXPECT_ANY_THROW(response.wait());
  clock_->advance(std::chrono::seconds(1));  // It is tried again, in vain.
  EXPECT_ANY_THROW(run_->wait()) << "the wait has an end, and tries it now";
  EXPECT_TRUE(fs::exists(image(2)));

  accept();
  run_->wait();

  EXPECT_NO_THROW(response.wait());
  EXPECT_THAT(run_->disk().steps(), ElementsAre(2));
  EXPECT_EQ(told_, 1);
  EXPECT_NO_THROW(run_->close());
}

TEST_P(FlashDisks, ThatTakeNothingKeepNoStepFromMemory) {
  save(2).wait();
  refuse();
  std::vector<FlashResponse> due = {save(4)};
  ASSERT_TRUE(is_told());
  for (std::uint64_t step = 5; step <= 20; ++step) {
    const FlashResponse response = save(step);
    EXPECT_FALSE(response.was_skipped()) << step;
    if (step % 2 == 0) {
      due.push_back(response);
    }
  }
  EXPECT_ANY_THROW(run_->wait());
  EXPECT_EQ(run_->latest_in_memory(), 20u);
  EXPECT_EQ(run_->skipped(), 0u);

  save(21);  // It is the newest now, though it is not due.
  accept();
  run_->wait();

  for (const FlashResponse& each : due) {
    EXPECT_THAT([&] { each.wait(); }, Fails(Errc::superseded));
  }
  EXPECT_THAT(run_->disk().steps(), ElementsAre(2, 21));
  EXPECT_EQ(told_, 1);
  EXPECT_NO_THROW(run_->close());
}

TEST_P(FlashDisks, ThatTakeNothingAreNamedByClose) {
  options_.disk.close_timeout = std::chrono::milliseconds(100);
  start_with(calls_);
  refuse();
  save(2);
  save(3);

  EXPECT_THAT([&] { run_->close(); },
              Fails(Errc::still_running, ::testing::AllOf(HasSubstr("step 3"), HasSubstr("it is in memory"),
                                                          HasSubstr("is not on disk (step "))));
  accept();
}

TEST_P(FlashDisks, ThatTakeNothingLeaveAProgramItsWayBack) {
  save(2).wait();
  save(3);
  refuse();
  save(4);
  ASSERT_TRUE(is_told());
  accept();

  run_->rewind(3);

  EXPECT_EQ(run_->latest_in_memory(), 3u);
  run_->wait();
  expect_resumed(3, ResumedFrom::memory);
  EXPECT_FALSE(save(4).was_skipped());
}

INSTANTIATE_TEST_SUITE_P(Refusals, FlashDisks, ::testing::Values(ENOSPC, EROFS, EIO, 0));

/// A disk that answers nothing.
class FlashDiskThatHangs : public FlashDisk {
 protected:
  void SetUp() override {
    FlashDisk::SetUp();
    if (!IsSkipped()) {
      start_with(calls_);
    }
  }
  void TearDown() override {
    calls_->hangs = false;
    calls_->hangs_late = false;
    FlashDisk::TearDown();
  }

  /// The copy of a step waits for it.
  FlashResponse hang_in_copy_of(std::uint64_t step) {
    calls_->hangs = true;
    const FlashResponse response = save(step, forced());
    while (!calls_->is_hanging) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return response;
  }

  const std::shared_ptr<FailingCalls> calls_ = std::make_shared<FailingCalls>(root());
};

TEST_F(FlashDiskThatHangs, KeepsNobodyFromSavingIntoMemory) {
  const FlashResponse response = hang_in_copy_of(1);

  EXPECT_FALSE(save(2).was_skipped());
  EXPECT_TRUE(save(3).was_skipped()) << "one image is being copied, and the other is the newest";
  EXPECT_EQ(run_->load(2, {"state"}).take<Tree>("state"), state_at(2));
  EXPECT_THAT([&] { response.wait(std::chrono::milliseconds(5)); }, Fails(Errc::still_running));

  calls_->hangs = false;
  response.wait();
  EXPECT_THAT(run_->disk().steps(), ElementsAre(1));
  EXPECT_FALSE(save(4).was_skipped());
}

TEST_F(FlashDiskThatHangs, IsNotWaitedForByWhatIsDueThere) {
  const FlashResponse response = hang_in_copy_of(1);
  save(2);

  const FlashResponse due = save(3, forced());
  EXPECT_TRUE(due.was_skipped());
  EXPECT_THAT([&] { due.wait(); }, Fails(Errc::superseded, HasSubstr("step 3")));

  calls_->hangs = false;
  run_->wait();
  response.wait();
  EXPECT_THAT(run_->disk().steps(), ElementsAre(1, 2)) << "the newest that is there goes in its place";
}

TEST_F(FlashDiskThatHangs, LeavesALastStepNowhereWhichCloseSays) {
  hang_in_copy_of(1);
  save(2);
  EXPECT_TRUE(save(3).was_skipped());
  calls_->hangs = false;

  run_->close();

  EXPECT_EQ(told_, 1);
  EXPECT_THAT(last_told_,
              ::testing::AllOf(HasSubstr("step 3 was the last, and is neither in memory nor on disk"),
                               HasSubstr("the newest there is step 2")));
  run_->close();
  EXPECT_EQ(told_, 1);
}

TEST_F(FlashDiskThatHangs, GetsTheNewestStepOnceItAnswers) {
  options_.memory_bytes = std::uint64_t{17} << 20;  // Three images.
  start_with(calls_);
  hang_in_copy_of(1);
  const FlashResponse overtaken = save(2, forced());
  for (std::uint64_t step = 3; step <= 9; ++step) {
    EXPECT_FALSE(save(step).was_skipped()) << step;
  }

  calls_->hangs = false;
  run_->wait();

  EXPECT_THAT(run_->disk().steps(), ElementsAre(1, 9));
  EXPECT_THAT([&] { overtaken.wait(); }, Fails(Errc::superseded, HasSubstr("step 9")));
  EXPECT_EQ(told_, 0);
}

TEST_F(FlashDiskThatHangs, KeepsNobodyFromSavingIntoMemoryWhenAStepGoesStraightThere) {
  save(1);
  save(2);
  calls_->hangs_late = true;
  FlashResponse straight;
  {
    const store::CheckpointHold reader(io::Directory::open(io::posix_syscalls(), image(1)));
    const Tree state = state_at(3);
    straight = run_->save(3, {{"state", state}}, forced());
    EXPECT_TRUE(straight.was_skipped());
    while (!calls_->is_hanging) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  for (std::uint64_t step = 4; step <= 9; ++step) {
    EXPECT_FALSE(save(step).was_skipped()) << step;
  }
  EXPECT_THAT([&] { straight.wait(std::chrono::milliseconds(5)); }, Fails(Errc::still_running));

  calls_->hangs_late = false;
  straight.wait();
  EXPECT_THAT(run_->disk().steps(), ElementsAre(3));
}

TEST_F(FlashDiskThatHangs, IsAskedByNoPolicyThatGoesByTime) {
  options_.disk.save = save_when::automatic();
  save(1, forced()).wait();
  start_with(calls_);
  calls_->hangs = true;

  EXPECT_FALSE(save(2).was_skipped());
  EXPECT_FALSE(save(3).was_skipped());
}

TEST_F(FlashDisk, DueStepsEndOnDiskOrAreOvertaken) {
  options_.disk.save = save_when::every_steps(1);
  options_.disk.keep = keep::latest(1);
  start_with(nullptr);
  std::vector<FlashResponse> responses;
  for (std::uint64_t step = 1; step <= 40; ++step) {
    const Tree state = state_at(step);
    responses.push_back(run_->save(step, {{"state", state}}));
  }
  run_->wait();

  for (const FlashResponse& each : responses) {
    try {
      each.wait();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::superseded) << error.what();
    }
  }
  EXPECT_EQ(run_->disk().latest(), run_->latest_in_memory());
  EXPECT_EQ(told_, 0);
  EXPECT_NO_THROW(run_->close());
}

TEST_F(FlashDisk, ThatRefusesAStepForWhichThereIsNoMemoryIsToldOfByItsResponse) {
  const auto calls = std::make_shared<FailingCalls>(root());
  options_.memory_bytes = std::uint64_t{1} << 20;
  start_with(calls);
  save(1);
  EXPECT_EQ(told_, 1) << "it is not kept in memory";
  calls->refusal = ENOSPC;
  const Tree state = state_at(2);

  for (std::uint64_t step = 2; step <= 5; ++step) {
    const FlashResponse response = run_->save(step, {{"state", state}}, forced());
    EXPECT_TRUE(response.was_skipped());
    EXPECT_THAT([&] { response.wait_in_memory(); }, FailsWithErrno(ENOSPC, HasSubstr("No space")));
    EXPECT_THAT([&] { response.wait(); }, FailsWithErrno(ENOSPC, HasSubstr("No space")));
    EXPECT_NO_THROW(run_->wait()) << "somebody was told";
  }
  EXPECT_EQ(told_, 2);
  static_cast<void>(run_->save(6, {{"state", state}}, forced()));
  EXPECT_THAT([&] { run_->close(); }, FailsWithErrno(ENOSPC, HasSubstr("step 6")));
}

TEST_F(FlashDisk, WithANewerStepLetsTheOnlyImageGo) {
  options_.memory_bytes = std::uint64_t{7} << 20;
  start_with(nullptr);
  save(1);
  EXPECT_TRUE(save(2).was_skipped());

  save(3, forced()).wait();
  run_->wait();

  EXPECT_FALSE(save(4).was_skipped());
  run_.reset();
  start();
  EXPECT_TRUE(save(5).was_skipped()) << "4 is not on disk, nor is a newer one";
}

TEST_F(FlashDisk, AStepThatTheDiskDidNotTakeIsLeftToTheAgent) {
  const auto calls = std::make_shared<FailingCalls>(root());
  options_.disk.close_timeout = std::chrono::milliseconds(100);
  start_with(calls);
  calls->refusal = ENOSPC;
  const FlashResponse response = save(1, forced());
  EXPECT_THAT([&] { run_->close(); }, Fails(Errc::still_running, HasSubstr("it is in memory")));
  run_.reset();
  EXPECT_FALSE(fs::exists(root() / "1"));

  testing::Process agent(CAIRN_LAST_WORD, {memory(), root(), "100", "0", "0"});
  for (int looks = 0; !fs::exists(root() / "1") && looks < 2000; ++looks) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(load(root() / "1", {}, *context_), state_at(1));
}

/// A full memory shows when a save begins, or at its last file.
class FlashMemories : public FlashDisk, public ::testing::WithParamInterface<const char*> {};

TEST_P(FlashMemories, ThatAreFullForAWhileEndNothing) {
  const auto calls = std::make_shared<FailingCalls>(memory());
  start_with(calls);
  save(1);

  calls->full = GetParam();
  for (std::uint64_t step = 2; step < 5; ++step) {
    const Tree state = state_at(step);
    static_cast<void>(run_->save(step, {{"state", state}}));
    run_->wait();
  }
  EXPECT_EQ(told_, 1);
  EXPECT_THAT(last_told_, HasSubstr("step 2 is not kept in memory"));
  EXPECT_EQ(run_->skipped(), 3u);
  EXPECT_EQ(run_->load(1, {"state"}).take<Tree>("state"), state_at(1));

  calls->full = nullptr;
  save(5);
  save(6);
  EXPECT_EQ(run_->skipped(), 3u);
  EXPECT_TRUE(fs::exists(image(5))) << "there is room for two";
  expect_resumed(6, ResumedFrom::memory);
}

INSTANTIATE_TEST_SUITE_P(Moments, FlashMemories, ::testing::Values("", "COMMIT"));

TEST_F(FlashDisk, WhoWaitsForAStepHearsThatTheMemoryWasFull) {
  const auto calls = std::make_shared<FailingCalls>(memory());
  start_with(calls);
  calls->full = "COMMIT";
  const Tree state = state_at(1);
  const FlashResponse response = run_->save(1, {{"state", state}});

  EXPECT_THAT([&] { response.wait_in_memory(); }, FailsWithErrno(ENOSPC, HasSubstr("COMMIT")));
  run_->wait();

  EXPECT_EQ(told_, 0);
  EXPECT_EQ(run_->skipped(), 1u);
}

}  // namespace
}  // namespace cairn::flash
