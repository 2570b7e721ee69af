// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gmock/gmock.h>

#include "io/faulty_syscalls.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/new_file.hpp"
#include "store/internal/checkpoint_lock.hpp"
#include "store/internal/memory_mark.hpp"
#include "store/internal/source.hpp"
#include "store/internal/staged_directory.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

using testing::TempDir;

class FilesInMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(testing::kSharedMemory)) {
      GTEST_SKIP() << "no " << testing::kSharedMemory;
    }
    memory_ = std::make_unique<TempDir>(testing::kSharedMemory);
    io::EngineOptions options;
    options.syscalls = &syscalls_;
    engine_ = io::make_engine(io::EngineKind::threads, options).engine;
  }

  StagedDirectory stage(const char* name) {
    StagedDirectory staged = StagedDirectory::create(*engine_, *memory_ / name);
    staged.make_directory("state");
    return staged;
  }

  io::FaultySyscalls syscalls_;
  std::unique_ptr<TempDir> memory_;
  std::unique_ptr<io::Engine> engine_;
};

io::NewFileOptions filled_in_place(std::uint64_t bytes) {
  io::NewFileOptions options;
  options.expected_bytes = bytes;
  options.is_filled_in_place = true;
  return options;
}

constexpr std::uint64_t kLarge = std::uint64_t{1} << 20;

TEST_F(FilesInMemory, AreFilledWhereTheyLieIfTheyAreLargeAndThatIsAskedFor) {
  StagedDirectory staged = stage("step");
  io::NewFileOptions written = filled_in_place(kLarge);
  written.is_filled_in_place = false;

  EXPECT_EQ(staged.create_file("state/large", filled_in_place(kLarge))->memory().size(), kLarge);
  EXPECT_TRUE(staged.create_file("state/small", filled_in_place(kLarge - 1))->memory().empty());
  EXPECT_TRUE(staged.create_file("state/written", written)->memory().empty());
}

TEST_F(FilesInMemory, AreThoseOfATmpfsAlone) {
  syscalls_.lies_on = io::FileSystem::local;
  StagedDirectory staged = stage("step");

  EXPECT_TRUE(staged.create_file("state/large", filled_in_place(kLarge))->memory().empty());
}

TEST_F(FilesInMemory, AreReadAsWhatIsInThePageCacheIs) {
  save_sample(*engine_, *memory_ / "step", "some text");
  const std::string file = "state/data";

  EXPECT_TRUE(
      open_committed_source(syscalls_, *memory_ / "step")->open_file(*engine_, file, true)->is_cached());
  syscalls_.lies_on = io::FileSystem::local;
  EXPECT_FALSE(
      open_committed_source(syscalls_, *memory_ / "step")->open_file(*engine_, file, true)->is_cached())
      << "a tmpfs tells by now what is cached: nobody needs to ask for the file system";
}

TEST_F(FilesInMemory, AreHeldWhileTheyAreReadOrMappedWhereTheyMayBecomeOthers) {
  const std::filesystem::path path = memory_->path() / "r00000";
  std::filesystem::create_directory(path);
  const io::Directory root = io::Directory::open(syscalls_, path);
  save_sample(*engine_, path / "step", "some text");
  const auto is_in_use = [&] { return CheckpointLock(root, "step").is_in_use(); };

  std::shared_ptr<const Source> source = open_committed_source(syscalls_, path / "step");
  EXPECT_FALSE(is_in_use()) << "no other checkpoint gets their memory";
  std::ofstream(*memory_ / kMemoryMarkName) << "{}";
  EXPECT_FALSE(is_in_use());
  source = open_committed_source(syscalls_, path / "step");
  EXPECT_TRUE(is_in_use());
  auto mapped = source->map_file("state/data");
  source.reset();
  EXPECT_TRUE(is_in_use());
  EXPECT_EQ(mapped->size(), 9u);
  source = open_committed_source(syscalls_, path / "step");
  mapped.reset();
  EXPECT_TRUE(is_in_use());
  source->release();
  EXPECT_FALSE(is_in_use());
  EXPECT_THAT([&] { static_cast<void>(source->map_file("state/data")); },
              testing::Fails(Errc::closed, ::testing::HasSubstr("not read any more")));
  source.reset();
  EXPECT_FALSE(is_in_use());

  CheckpointLock lock(root, "step");
  EXPECT_FALSE(lock.is_in_use());  // From here on nobody begins to read it.
  EXPECT_THAT([&] { static_cast<void>(open_committed_source(syscalls_, path / "step")); },
              testing::Fails(Errc::not_found, ::testing::HasSubstr("being removed")));
}

}  // namespace
}  // namespace cairn::store
