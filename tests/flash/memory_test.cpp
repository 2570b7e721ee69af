// SPDX-License-Identifier: Apache-2.0
#include "flash/memory.hpp"

#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "io/faulty_syscalls.hpp"
#include "store/internal/memory_mark.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::flash {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

std::vector<Image> images_of(std::size_t count) {
  std::vector<Image> images(count);
  for (std::size_t i = 0; i < count; ++i) {
    images[i].step = i + 1;
  }
  return images;
}

TEST(ImageToRetire, IsTheOldestButNotTheNewest) {
  EXPECT_EQ(image_to_retire({}, false, false), std::nullopt);
  EXPECT_EQ(image_to_retire(images_of(1), false, false), std::nullopt);
  EXPECT_EQ(image_to_retire(images_of(3), false, false), 0u);
}

TEST(ImageToRetire, IsNotOneThatIsWanted) {
  std::vector<Image> images = images_of(3);
  images[0].is_wanted = true;
  EXPECT_EQ(image_to_retire(images, false, false), 1u);

  images[1].is_wanted = true;
  EXPECT_EQ(image_to_retire(images, false, false), std::nullopt);
}

TEST(ImageToRetire, IsADamagedOneFirst) {
  std::vector<Image> images = images_of(3);
  images[2].is_damaged = true;
  EXPECT_EQ(image_to_retire(images, false, false), 2u);

  images[2].is_wanted = true;  // Somebody reads it all the same: then the newest that is sound stays.
  EXPECT_EQ(image_to_retire(images, false, false), 0u);
  images[0].is_wanted = true;
  EXPECT_EQ(image_to_retire(images, false, false), std::nullopt);
}

TEST(ImageToRetire, IsTheOnlyOneIfItIsOnDiskOrThatWasAskedFor) {
  std::vector<Image> images = images_of(1);
  EXPECT_EQ(image_to_retire(images, true, false), std::nullopt);
  EXPECT_EQ(image_to_retire(images, true, true), 0u);

  images[0].is_on_disk = true;
  EXPECT_EQ(image_to_retire(images, true, false), 0u);
  EXPECT_EQ(image_to_retire(images, false, false), std::nullopt);
}

class Memories : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(testing::kSharedMemory)) {
      GTEST_SKIP() << "no " << testing::kSharedMemory;
    }
    above_ = std::make_unique<testing::TempDir>(testing::kSharedMemory);
    options_.memory = *above_ / "memory";
    options_.root = disk_ / "run";
  }

  [[nodiscard]] std::unique_ptr<Memory> open() { return open(options_); }
  [[nodiscard]] std::unique_ptr<Memory> open(const Memory::Options& options) {
    return std::make_unique<Memory>(options, syscalls_, store::system_random);
  }

  [[nodiscard]] store::MemoryMark read_mark() const {
    const std::filesystem::path path = options_.memory / ".cairn-memory";
    return store::parse_mark(testing::read_text(path), path);
  }

  template <class Text>
  void expect_refused(const Text& text) {
    EXPECT_THAT([&] { static_cast<void>(open()); }, Fails(Errc::invalid_argument, text));
  }

  testing::TempDir disk_;
  std::unique_ptr<testing::TempDir> above_;
  io::FaultySyscalls syscalls_;
  Memory::Options options_;
};

TEST_F(Memories, AreMadeForTheirUserAlone) {
  const std::unique_ptr<Memory> memory = open();

  EXPECT_EQ(std::filesystem::status(options_.memory).permissions(), std::filesystem::perms::owner_all);
  EXPECT_TRUE(std::filesystem::is_directory(options_.memory / "r00000"));
  EXPECT_TRUE(memory->images().empty());
  EXPECT_EQ(memory->latest(), std::nullopt);
}

TEST_F(Memories, AreOpenedAgain) {
  static_cast<void>(open());
  EXPECT_NO_THROW(static_cast<void>(open()));
}

TEST_F(Memories, AreRefusedWhereOthersCouldChangeThem) {
  std::filesystem::create_directory(options_.memory);
  std::filesystem::permissions(options_.memory, std::filesystem::perms{0755});
  expect_refused(HasSubstr("open to others (mode 0755)"));

  std::filesystem::permissions(options_.memory, std::filesystem::perms::owner_all);
  std::filesystem::create_directory_symlink(options_.memory, *above_ / "link");
  options_.memory = *above_ / "link";
  expect_refused(HasSubstr("symbolic link"));
}

TEST_F(Memories, AreRefusedWhereTheyAreSomethingElse) {
  testing::write_text(options_.memory, "a file");
  expect_refused(HasSubstr("not a directory"));

  std::filesystem::remove(options_.memory);
  std::filesystem::create_directory(options_.memory);
  std::filesystem::permissions(options_.memory, std::filesystem::perms::owner_all);
  testing::write_text(options_.memory / "diary", "mine");
  expect_refused(HasSubstr("not empty"));

  options_.memory = disk_ / "memory";
  syscalls_.lies_on = io::FileSystem::local;
  expect_refused(HasSubstr("not on a tmpfs"));
}

TEST_F(Memories, AreRefusedWhereTheyAndTheStepsLieInEachOther) {
  options_.root = options_.memory / "steps";
  expect_refused(HasSubstr("lie in each other"));
  options_.root = options_.memory;
  expect_refused(HasSubstr("lie in each other"));
}

TEST_F(Memories, OfAnotherRunNameBoth) {
  static_cast<void>(open());
  Memory::Options other = options_;
  other.root = disk_ / "other";

  EXPECT_THAT([&] { static_cast<void>(open(other)); },
              Fails(Errc::invalid_argument, ::testing::AllOf(HasSubstr((disk_ / "other").string()),
                                                             HasSubstr((disk_ / "run").string()))));
}

TEST_F(Memories, AreTakenOverFromAProgramThatWasKilledBeforeTheyHadTheirMark) {
  const std::string uuid = store::to_string(store::make_uuid(store::system_random));
  std::filesystem::create_directory(options_.memory);
  std::filesystem::permissions(options_.memory, std::filesystem::perms::owner_all);
  testing::write_text(options_.memory / (".cairn-memory." + uuid), "{");
  std::filesystem::create_directories(options_.root / ".cairn-flash");
  testing::write_text(options_.root / ".cairn-flash" / ("run." + uuid), "f81d");

  static_cast<void>(open());

  EXPECT_FALSE(std::filesystem::exists(options_.memory / (".cairn-memory." + uuid)));
  EXPECT_FALSE(std::filesystem::exists(options_.root / ".cairn-flash" / ("run." + uuid)));
  EXPECT_TRUE(std::filesystem::exists(options_.memory / ".cairn-memory"));
}

TEST_F(Memories, AreRefusedWhereSomethingElseIsCalledLikeAnUnfinishedMark) {
  std::filesystem::create_directory(options_.memory);
  std::filesystem::permissions(options_.memory, std::filesystem::perms::owner_all);
  testing::write_text(options_.memory / ".cairn-memory.bak", "mine");
  expect_refused(HasSubstr("not empty"));
  EXPECT_TRUE(std::filesystem::exists(options_.memory / ".cairn-memory.bak"));
}

TEST_F(Memories, OfSeveralRanksAreRefused) {
  static_cast<void>(open());
  store::MemoryMark mark = read_mark();
  mark.ranks = 4;
  testing::write_text(options_.memory / ".cairn-memory", store::encode_mark(mark));

  expect_refused(::testing::AllOf(HasSubstr("4 ranks"), HasSubstr("1 process")));
}

TEST_F(Memories, SayWhatTheirLastProgramHasSaid) {
  open()->renew_mark();
  EXPECT_EQ(read_mark().names, (std::vector<store::StepNames>{{"", 0}}));

  options_.names.format = StepFormat("step_", 8);
  options_.names.also_read = {StepFormat()};
  options_.limit_bytes = 1 << 20;
  open()->renew_mark();

  EXPECT_EQ(read_mark().names, (std::vector<store::StepNames>{{"step_", 8}, {"", 0}}));
  EXPECT_EQ(read_mark().step_zero, "step_00000000");
  EXPECT_EQ(read_mark().limit_bytes, 1u << 20);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(options_.memory), {}), 2);
}

TEST_F(Memories, AreCleanedOfWhatWasNotFinished) {
  static_cast<void>(open());
  const std::string uuid = store::to_string(store::make_uuid(store::system_random));
  std::filesystem::create_directories(options_.memory / "r00000" / (".tmp-5-" + uuid) / "state");
  std::filesystem::create_directories(options_.memory / "r00000" / (".trash-4-" + uuid));
  std::filesystem::create_directories(options_.memory / "r00000/3");

  const std::unique_ptr<Memory> memory = open();

  EXPECT_FALSE(std::filesystem::exists(options_.memory / "r00000" / (".tmp-5-" + uuid)));
  EXPECT_FALSE(std::filesystem::exists(options_.memory / "r00000" / (".trash-4-" + uuid)));
  ASSERT_EQ(memory->images().size(), 1u);
  EXPECT_TRUE(memory->images()[0].is_damaged);
  EXPECT_TRUE(memory->make_room(3, 0));
  EXPECT_FALSE(std::filesystem::exists(options_.memory / "r00000/3"));
}

}  // namespace
}  // namespace cairn::flash
