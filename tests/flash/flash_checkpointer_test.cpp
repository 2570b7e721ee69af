// SPDX-License-Identifier: Apache-2.0
#include "cairn/flash/flash_checkpointer.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/api/find.hpp"
#include "cairn/api/load.hpp"

#include "flash/fixture.hpp"
#include "flash/steps.hpp"
#include "io/internal/file.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/checkpoint_lock.hpp"
#include "support/fails.hpp"
#include "support/number_from.hpp"
#include "support/temp_dir.hpp"

namespace cairn::flash {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;

using FlashCheckpointers = FlashTest;

TEST_F(FlashCheckpointers, KeepEachStepInMemoryAndSomeOnDisk) {
  options_.disk.save = save_when::every_steps(2);
  start_again();
  for (std::uint64_t step = 1; step <= 5; ++step) {
    save(step);
    run_->wait();
  }

  EXPECT_EQ(run_->latest_in_memory(), 5u);
  EXPECT_THAT(run_->disk().steps(), ElementsAre(2, 4));
  EXPECT_EQ(run_->skipped(), 0u);
  EXPECT_FALSE(std::filesystem::exists(image(3)));
  EXPECT_TRUE(std::filesystem::exists(image(4)));
  EXPECT_EQ(run_->disk().load(4, {"state"}).take<Tree>("state"), state_at(4));
}

TEST_F(FlashCheckpointers, PersistTheVeryImage) {
  const SaveResult result = save(7, forced()).wait();

  EXPECT_EQ(result.pool.peak_bytes, 0u) << "it is written from where it lies";
  EXPECT_EQ(checkpointables_metadata(image(7), *context_).uuid, run_->disk().metadata(7).uuid);
}

TEST_F(FlashCheckpointers, TakeNoStagingMemory) {
  save(1);
  save(2);

  EXPECT_EQ(context_->pool_bytes(), 0u);
}

TEST_F(FlashCheckpointers, GoOnFromTheNewestOfMemoryAndDisk) {
  EXPECT_FALSE(run_->resume({"state"}));
  save(10, forced()).wait();
  save(11);
  start_again();
  expect_resumed(11, ResumedFrom::memory);

  run_.reset();
  std::filesystem::remove_all(memory());
  start();
  expect_resumed(10, ResumedFrom::disk);
}

TEST_F(FlashCheckpointers, PassOverADamagedImageWhichIsTheFirstToGiveWay) {
  save(1);
  save(2);
  run_.reset();
  alter(2);
  start();

  const std::optional<FlashResumed> resumed = run_->resume({"state"});
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->step, 1u);
  ASSERT_EQ(resumed->passed_over.size(), 1u);
  EXPECT_EQ(resumed->passed_over[0].path, image(2));
  EXPECT_THAT(resumed->why, HasSubstr("chunk"));

  save(2);
  EXPECT_EQ(run_->load(2, {"state"}).take<Tree>("state"), state_at(2));
  EXPECT_TRUE(std::filesystem::exists(image(1)));
  EXPECT_EQ(run_->skipped(), 0u);
}

TEST_F(FlashCheckpointers, HaveMemoryMadeWhenTheyGoOn) {
  save(1, forced()).wait();
  run_.reset();
  std::filesystem::remove_all(memory());
  start();

  expect_resumed(1, ResumedFrom::disk);
  run_->wait();

  const std::filesystem::directory_iterator spare(memory() / "r00000/.cairn-spare");
  EXPECT_EQ(std::distance(begin(spare), end(spare)), 2)
      << "one file of an image is large, and there are to be two";
  save(2);
  save(3);
  EXPECT_EQ(run_->latest_in_memory(), 3u);
}

TEST_F(FlashCheckpointers, HaveAllImagesMappedWhenTheyGoOn) {
  const auto is_mapped = [&](std::uint64_t step) {
    std::ifstream maps("/proc/self/maps");
    const std::string text{std::istreambuf_iterator<char>(maps), {}};
    return text.find(image(step).native() + "/") != std::string::npos;
  };
  save(1);
  save(2);
  start_again();
  EXPECT_FALSE(is_mapped(1));

  expect_resumed(2, ResumedFrom::memory);
  run_->wait();

  EXPECT_TRUE(is_mapped(1)) << "the next save takes its memory";
  EXPECT_TRUE(is_mapped(2));
}

TEST_F(FlashCheckpointers, SkipASaveWhileNoImageMayGiveWay) {
  save(1);
  save(2);
  {
    const store::CheckpointHold reader(io::Directory::open(io::posix_syscalls(), image(1)));
    ASSERT_TRUE(reader.is_held());
    EXPECT_TRUE(save(3).was_skipped());
    EXPECT_TRUE(save(4, forced()).was_skipped());
  }
  EXPECT_THAT(run_->disk().steps(), ElementsAre(4)) << "it was due there, and went straight to it";
  EXPECT_EQ(run_->skipped(), 2u);

  EXPECT_FALSE(save(5).was_skipped());
  EXPECT_FALSE(std::filesystem::exists(image(1)));
  EXPECT_EQ(run_->latest_in_memory(), 5u);
}

TEST_F(FlashCheckpointers, WithRoomForOneGiveItUpOnlyWhenThatWasAskedFor) {
  options_.memory_bytes = std::uint64_t{7} << 20;
  start_again();
  save(1);
  EXPECT_TRUE(save(2).was_skipped());
  EXPECT_EQ(run_->latest_in_memory(), 1u);
  run_.reset();

  options_.may_lose_the_only_image = true;
  start();
  EXPECT_FALSE(save(3).was_skipped());
  EXPECT_EQ(run_->latest_in_memory(), 3u);
}

TEST_F(FlashCheckpointers, RefuseAStepThatIsNotAboveTheNewestInMemory) {
  save(5);

  EXPECT_THAT([&] { save(5); }, Fails(Errc::invalid_argument, HasSubstr("5 is in memory")));
  EXPECT_THAT([&] { save(4); }, Fails(Errc::invalid_argument, HasSubstr("rewind")));
}

TEST_F(FlashCheckpointers, RefuseAStepBelowTheDiskFromAProgramThatHasNotResumed) {
  save(5, forced()).wait();
  run_.reset();
  std::filesystem::remove_all(memory());
  start();

  EXPECT_THAT([&] { save(5); }, Fails(Errc::invalid_argument, HasSubstr("5 is on disk")));
  EXPECT_THAT([&] { save(1); }, Fails(Errc::invalid_argument, HasSubstr("resume")));
  EXPECT_EQ(run_->latest_in_memory(), std::nullopt);
  EXPECT_NO_THROW(save(1, forced()).wait()) << "as on disk";
  EXPECT_NO_THROW(save(6));
}

TEST_F(FlashCheckpointers, TakeStepsBelowADamagedOneOnDiskOnceTheyHavePassedOverIt) {
  save(1, forced()).wait();
  save(5, forced()).wait();
  run_.reset();
  std::filesystem::remove_all(memory());
  std::filesystem::resize_file(root() / "5" / "checkpoint.json", 10);
  start();

  ResumeOptions how;
  how.fall_back = true;
  EXPECT_EQ(run_->resume({"state"}, how)->step, 1u);

  EXPECT_NO_THROW(save(2));
}

TEST_F(FlashCheckpointers, TellApartStepsBeyondWhatAFloatHolds) {
  constexpr std::uint64_t kLarge = (std::uint64_t{1} << 53) + 1;
  save(kLarge);
  save(kLarge + 1);
  start_again();

  expect_resumed(kLarge + 1, ResumedFrom::memory);
}

TEST_F(FlashCheckpointers, SaveStepZero) {
  save(0);
  start_again();

  expect_resumed(0, ResumedFrom::memory);
}

TEST_F(FlashCheckpointers, GoBackInBothLevels) {
  save(1, forced()).wait();
  save(2, forced()).wait();
  save(3);

  run_->rewind(1);

  EXPECT_EQ(run_->latest_in_memory(), std::nullopt) << "1 had to give way to 3";
  EXPECT_THAT(run_->disk().steps(), ElementsAre(1));
  EXPECT_EQ(told_, 0) << "what the program gives up itself it knows";
  expect_resumed(1, ResumedFrom::disk);
  EXPECT_NO_THROW(save(2));
}

TEST_F(FlashCheckpointers, GoBackToAStepInMemoryAlone) {
  save(1);
  save(2);

  run_->rewind(1);

  EXPECT_EQ(run_->latest_in_memory(), 1u);
  expect_resumed(1, ResumedFrom::memory);
}

TEST_F(FlashCheckpointers, KeepAllImagesWhenTheStepToGoBackToIsNowhere) {
  save(1, forced()).wait();
  save(3);
  save(4);

  EXPECT_THAT([&] { run_->rewind(2); }, Fails(Errc::not_found, HasSubstr("step 2 is neither in memory")));

  EXPECT_EQ(run_->load(3, {"state"}).take<Tree>("state"), state_at(3));
  EXPECT_EQ(run_->latest_in_memory(), 4u);
  expect_resumed(4, ResumedFrom::memory);
}

TEST_F(FlashCheckpointers, KeepBothLevelsWhenEitherDoesNotGoBack) {
  save(1, forced()).wait();
  save(2, forced()).wait();
  save(3);
  {
    const store::CheckpointHold reader(io::Directory::open(io::posix_syscalls(), image(2)));
    EXPECT_THAT([&] { run_->rewind(1); }, FailsWithErrno(EBUSY, HasSubstr("is being read")));
  }
  run_->disk().pin(2);
  EXPECT_THAT([&] { run_->rewind(1); }, Fails(Errc::invalid_argument, HasSubstr("is pinned")));

  EXPECT_THAT(run_->disk().steps(), ElementsAre(1, 2));
  EXPECT_TRUE(std::filesystem::exists(image(2)));
  EXPECT_EQ(run_->latest_in_memory(), 3u);

  run_->disk().unpin(2);
  run_->rewind(1);
  expect_resumed(1, ResumedFrom::disk);
}

TEST_F(FlashCheckpointers, GoBackToAStepInMemoryAloneBelowAllThatIsOnDisk) {
  save(1);
  save(2, forced()).wait();

  run_->rewind(1);

  EXPECT_THAT(run_->disk().steps(), ::testing::IsEmpty());
  expect_resumed(1, ResumedFrom::memory);
  save(2, forced()).wait();
  EXPECT_THAT(run_->disk().steps(), ElementsAre(2));
}

TEST_F(FlashCheckpointers, DoNotGoBackToADamagedImage) {
  save(1);
  save(2);
  alter(1);
  EXPECT_ANY_THROW(static_cast<void>(run_->load(1, {"state"})));

  EXPECT_THAT([&] { run_->rewind(1); }, Fails(Errc::not_found, HasSubstr("step 1 is neither")));

  expect_resumed(2, ResumedFrom::memory);
}

/// The policy of what to keep is asked on the thread that removes.
TEST_F(FlashCheckpointers, DoNotGoBackToAStepThatIsBeingRemoved) {
  std::atomic<bool> is_held = false;
  options_.disk.keep = [&is_held](std::span<const StepInfo> steps, CommitTime) {
    while (is_held) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::vector<bool> kept(steps.size());
    kept.back() = true;
    return kept;
  };
  start_again();
  save(1, forced()).wait();
  run_->wait();
  is_held = true;
  save(2, forced()).wait();
  save(3);
  EXPECT_FALSE(std::filesystem::exists(image(1)));
  std::thread later([&is_held] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // The look at the disk finds it yet.
    is_held = false;
  });

  EXPECT_THAT([&] { run_->rewind(1); }, Fails(Errc::not_found, HasSubstr("step 1 ")));

  later.join();
  EXPECT_EQ(run_->latest_in_memory(), 3u);
  EXPECT_THAT(run_->disk().steps(), ElementsAre(2));
  run_.reset();  // It asks the policy.
}

TEST_F(FlashCheckpointers, GoBackWhileTheResponseToALoadIsKept) {
  save(1);
  save(2);
  const LoadResponse response = load_checkpointables_async(image(2), {"state"}, {}, *context_);
  Loaded loaded = response.wait();

  run_->rewind(1);

  EXPECT_EQ(run_->latest_in_memory(), 1u);
  EXPECT_EQ(loaded.take<Tree>("state"), state_at(2));
}

TEST_F(FlashCheckpointers, LoadAStepFromWhereItIs) {
  save(1, forced()).wait();
  save(2);
  save(3);

  EXPECT_EQ(run_->load(1, {"state"}).take<Tree>("state"), state_at(1));
  EXPECT_EQ(run_->load(3, {"state"}).take<Tree>("state"), state_at(3));
  EXPECT_EQ(run_->metadata(3).path, image(3));
  EXPECT_THAT([&] { static_cast<void>(run_->load(4, {"state"})); }, Fails(Errc::not_found));
}

TEST_F(FlashCheckpointers, TakeAnotherStructureAsAnotherCheckpoint) {
  save(1);
  save(2);
  Tree other;
  other["more"] = Array::adopt(std::vector<std::uint32_t>(kValues, 3));
  run_->save(3, {{"state", other}}).wait_in_memory();
  start_again();

  EXPECT_EQ(run_->load(3, {"state"}).take<Tree>("state"), other);
}

TEST_F(FlashCheckpointers, GoOnWithTheDiskWhenTheMemoryIsRemoved) {
  save(1);
  std::filesystem::remove_all(memory());

  EXPECT_TRUE(save(2).was_skipped());
  EXPECT_TRUE(save(3, forced()).was_skipped());

  EXPECT_THAT(run_->disk().steps(), ElementsAre(3));
  EXPECT_EQ(told_, 1);
  EXPECT_THAT(last_told_, HasSubstr("r00000 was removed"));
}

TEST_F(FlashCheckpointers, SaveIntoNoOtherDirectory) {
  save(1);
  std::filesystem::rename(memory(), *above_ / "elsewhere");
  std::filesystem::create_directories(memory() / "r00000");

  EXPECT_THAT([&] { save(2); }, Fails(Errc::invalid_argument, HasSubstr("another directory")));
}

TEST_F(FlashCheckpointers, AreOneOfAProcess) {
  EXPECT_THAT([&] { FlashCheckpointer(root(), options_, *context_); },
              Fails(Errc::invalid_argument, HasSubstr("this process fills")));
}

TEST_F(FlashCheckpointers, SaveNothingWhenTheyAreClosed) {
  save(1);
  run_->close();
  run_->close();

  EXPECT_THAT([&] { save(2); }, Fails(Errc::closed));
}

TEST_F(FlashCheckpointers, ShowTheirImagesToEverybodysTools) {
  save(1);
  save(2);

  EXPECT_EQ(list_checkpoints(memory() / "r00000", {}, *context_).size(), 2u);
  EXPECT_EQ(load(image(2), {}, *context_), state_at(2));
}

TEST_F(FlashCheckpointers, LeaveNothingThatGrows) {
  const auto count = [](const std::filesystem::path& directory) {
    return std::distance(std::filesystem::directory_iterator(directory),
                         std::filesystem::directory_iterator());
  };
  const auto mappings = [this] {  // Of images: the memory of threads grows, too, but not with each save.
    std::ifstream maps("/proc/self/maps");
    std::ptrdiff_t found = 0;
    for (std::string line; std::getline(maps, line);) {
      found += line.find(memory().string()) != std::string::npos ? 1 : 0;
    }
    return found;
  };
  const std::uint64_t saves = testing::number_from("CAIRN_FLASH_SAVES", 30);
  constexpr std::uint64_t kWarm = 10;
  std::ptrdiff_t descriptors_before = 0;
  std::ptrdiff_t mappings_before = 0;
  for (std::uint64_t step = 1; step <= saves; ++step) {
    save(step);
    if (step == kWarm) {
      descriptors_before = count("/proc/self/fd");
      mappings_before = mappings();
    }
  }
  EXPECT_LE(count("/proc/self/fd"), descriptors_before);
  EXPECT_GT(mappings_before, 0);
  EXPECT_LE(mappings(), mappings_before + 5);
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(memory())) {
    bytes += entry.is_regular_file() ? entry.file_size() : 0;
  }
  EXPECT_LE(bytes, 2 * kValues * sizeof(std::uint64_t) * 101 / 100);
  EXPECT_EQ(count(memory() / "r00000/.cairn-spare"), 0);
}

}  // namespace
}  // namespace cairn::flash
