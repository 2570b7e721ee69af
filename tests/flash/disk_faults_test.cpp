// SPDX-License-Identifier: Apache-2.0
// Disks that do not take steps, and a memory that takes only a part of one.
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>

#include <gmock/gmock.h>

#include "flash/failing_calls.hpp"
#include "flash/fixture.hpp"
#include "flash/internal/run_images.hpp"
#include "flash/steps.hpp"
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

class FlashDisks : public FlashDisk, public ::testing::WithParamInterface<int> {};

TEST_P(FlashDisks, ThatAreFullOrReadOnlyAreTriedAgainAndToldOnce) {
  const auto calls = std::make_shared<FailingCalls>(root());
  const auto clock = std::make_shared<testing::ManualClock>();
  start_with(calls, clock);

  calls->refusal = GetParam();
  const FlashResponse response = save(1, forced());
  save(2);
  for (int looks = 0; told_ == 0 && looks < 5000; ++looks) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(told_, 1);
  clock->advance(std::chrono::seconds(1));  // It is tried again, in vain.
  EXPECT_TRUE(fs::exists(image(1))) << "it is held until it is on disk";
  calls->refusal = 0;
  for (bool is_done = false; !is_done;) {
    clock->advance(std::chrono::seconds(2));
    try {
      response.wait(std::chrono::milliseconds(5));
      is_done = true;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Errc::still_running) << error.what();
    }
  }

  EXPECT_THAT(run_->disk().steps(), ElementsAre(1));
  EXPECT_EQ(told_, 1);
  save(3);
  EXPECT_EQ(run_->latest_in_memory(), 3u);
}

INSTANTIATE_TEST_SUITE_P(Refusals, FlashDisks, ::testing::Values(ENOSPC, EROFS, EIO));

TEST_F(FlashDisk, ADiskThatHangsKeepsNobodyFromSavingIntoMemory) {
  const auto calls = std::make_shared<FailingCalls>(root());
  start_with(calls);
  calls->hangs = true;
  const FlashResponse response = save(1, forced());
  while (!calls->is_hanging) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  EXPECT_FALSE(save(2).was_skipped());
  EXPECT_TRUE(save(3).was_skipped()) << "one image is being copied, and the other is the newest";
  EXPECT_EQ(run_->load(2, {"state"}).take<Tree>("state"), state_at(2));
  EXPECT_THAT([&] { response.wait(std::chrono::milliseconds(5)); }, Fails(Errc::still_running));

  calls->hangs = false;
  response.wait();
  EXPECT_THAT(run_->disk().steps(), ElementsAre(1));
  EXPECT_FALSE(save(4).was_skipped());
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
