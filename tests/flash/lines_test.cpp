// SPDX-License-Identifier: Apache-2.0
// A run goes back while another memory has images of the line that it gives up, and meets that memory again.
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flash/fixture.hpp"
#include "flash/internal/run_images.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/checkpoint_lock.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::flash {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Lines : public FlashTest {
 protected:
  void SetUp() override {
    FlashTest::SetUp();
    if (IsSkipped()) {
      return;
    }
    save(8, forced()).wait();
    save(19);
    save(20);
    run_.reset();
  }

  [[nodiscard]] std::filesystem::path line_file() const { return root() / ".cairn-flash" / "line"; }

  /// As on another machine, which has no image.
  void go_back_elsewhere_and_save() {
    FlashOptions there = options_;
    there.memory = *above_ / "elsewhere";
    FlashCheckpointer run(root(), there, *context_);
    run.rewind(8);
    const Tree state = state_at(12);
    run.save(12, {{"state", state}}, forced()).wait();
    run.close();
  }

  /// Returns what is said of those that it passes over.
  [[nodiscard]] std::vector<std::string> have_last_word(std::optional<std::uint64_t> persisted) {
    std::vector<std::string> passed_over;
    const RunImages images(memory(), root(), *context_);
    EXPECT_EQ(images.persist_newest([&](const std::exception& why) { passed_over.emplace_back(why.what()); }),
              persisted);
    return passed_over;
  }
};

TEST_F(Lines, ThatWereGivenUpWithAnotherMemoryAreNotGoneOnFrom) {
  go_back_elsewhere_and_save();
  told_ = 0;

  start();

  EXPECT_EQ(run_->latest_in_memory(), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(image(20)));
  EXPECT_EQ(told_, 2) << "19 and 20";
  EXPECT_THAT(last_told_, HasSubstr("20 belongs to steps that were given up"));
  expect_resumed(12, ResumedFrom::disk);
  EXPECT_THAT(run_->resume({"state"})->why, HasSubstr("20 belongs to steps that were given up"));
  save(13);
  start_again();
  expect_resumed(13, ResumedFrom::memory);
}

TEST_F(Lines, ThatWereGivenUpGoToNoDisk) {
  go_back_elsewhere_and_save();

  EXPECT_THAT(have_last_word({}), ElementsAre(HasSubstr("20 belongs to"), HasSubstr("19 belongs to")));
  const RunImages images(memory(), root(), *context_);
  EXPECT_THAT([&] { images.persist(20); },
              Fails(Errc::superseded, HasSubstr("its line is 0, and the run is in line 1")));
  EXPECT_EQ(images.newest(), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(root() / "20"));
  EXPECT_THAT(images.clean(false).retired, ElementsAre(19, 20));
}

TEST_F(Lines, AreGivenUpByAPlainCheckpointer) {
  {
    Checkpointer plain(root(), {}, *context_);
    plain.rewind(8);
    const Tree state = state_at(12);
    plain.save(12, {{"state", state}}).wait();
  }

  start();

  expect_resumed(12, ResumedFrom::disk);
}

TEST_F(Lines, AreLeftAsTheyAreWhereTheRewindFails) {
  {
    Checkpointer plain(root(), {}, *context_);
    const Tree state = state_at(9);
    plain.save(9, {{"state", state}}).wait();
    plain.pin(9);
    EXPECT_THAT([&] { plain.rewind(8); }, Fails(Errc::invalid_argument, HasSubstr("is pinned")));
  }

  start();

  expect_resumed(20, ResumedFrom::memory);
}

TEST_F(Lines, KeepTheImagesBelowTheStepThatWasGoneBackTo) {
  start();
  run_->rewind(19);
  start_again();
  expect_resumed(19, ResumedFrom::memory);

  save(20);
  start_again();

  expect_resumed(20, ResumedFrom::memory);
  EXPECT_EQ(testing::read_text(line_file()), "1\n1 20\n");
}

TEST_F(Lines, AreGivenUpByTheCheckpointerOfTheDiskAlone) {
  start();
  static_cast<void>(run_->resume({"state"}));
  run_->disk().rewind(8);

  save(9);

  EXPECT_EQ(run_->latest_in_memory(), 9u);
  start_again();
  expect_resumed(9, ResumedFrom::memory);
}

TEST_F(Lines, ThatAreReadAreNotGoneOnFromEither) {
  go_back_elsewhere_and_save();
  const store::CheckpointHold reader(io::Directory::open(io::posix_syscalls(), image(20)));

  start();

  expect_resumed(12, ResumedFrom::disk);
  EXPECT_TRUE(std::filesystem::exists(image(20)));
}

TEST_F(Lines, ThatNobodyKnowsAreRefusedAndLoseNothing) {
  start();
  run_->rewind(19);
  save(20);
  run_.reset();
  std::filesystem::remove(line_file());

  EXPECT_THAT([&] { start(); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("20 is of line 1 of the steps"),
                                                  HasSubstr("knows none after 0; cairn agent clean --all"))));
  EXPECT_THAT(have_last_word(19), ElementsAre(HasSubstr("20 is of line 1")));

  testing::write_text(line_file(), "1\n1 20\n");
  start();
  expect_resumed(20, ResumedFrom::memory);
}

TEST_F(Lines, WhoseFileIsDamagedAreRefusedByItsName) {
  testing::write_text(line_file(), "1\n2 20\n");

  EXPECT_THAT([&] { start(); },
              Fails(Errc::malformed_metadata, HasSubstr(".cairn-flash/line: not the number")));

  std::filesystem::remove(line_file());
  start();
  expect_resumed(20, ResumedFrom::memory);
}

TEST_F(Lines, ThatAProgramWasKilledInBeginningLeaveNothing) {
  const std::filesystem::path left = line_file().string() + ".00000000-0000-4000-8000-000000000000";
  testing::write_text(left, "1\n");

  start();

  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST(LinesOfARoot, ThatNoMemoryKnowsAreNotCounted) {
  const testing::TempDir root;
  Checkpointer plain(root.path(), {});
  const Tree state = state_at(1, 8);
  plain.save(1, {{"state", state}}).wait();
  plain.save(2, {{"state", state}}).wait();

  plain.rewind(1);

  EXPECT_THAT(plain.steps(), ElementsAre(1));
  EXPECT_FALSE(std::filesystem::exists(root / ".cairn-flash"));
}

}  // namespace
}  // namespace cairn::flash
