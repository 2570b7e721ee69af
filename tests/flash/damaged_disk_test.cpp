// SPDX-License-Identifier: Apache-2.0
// Images beside steps on disk that are damaged, or that are not steps.
#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>

#include <gmock/gmock.h>

#include "flash/fixture.hpp"
#include "flash/internal/run_images.hpp"
#include "flash/steps.hpp"
#include "support/temp_dir.hpp"

namespace cairn::flash {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;

/// What is done to a step on disk.
enum class Damage : std::uint8_t { torn_manifest, garbled_commit, lost_commit, lost_data };

void PrintTo(Damage damage, std::ostream* out) {
  *out << static_cast<int>(damage);
}

class BesideOthers : public FlashTest {
 protected:
  [[nodiscard]] fs::path on_disk(std::uint64_t step) const { return root() / std::to_string(step); }

  static void damage(const fs::path& checkpoint, Damage how) {
    switch (how) {
      case Damage::torn_manifest:
        fs::resize_file(checkpoint / "checkpoint.json", 10);
        return;
      case Damage::garbled_commit:
        testing::write_text(checkpoint / "COMMIT", std::string(fs::file_size(checkpoint / "COMMIT"), 'x'));
        return;
      case Damage::lost_commit:
        fs::remove(checkpoint / "COMMIT");
        return;
      case Damage::lost_data:
        for (const auto& entry : fs::recursive_directory_iterator(checkpoint)) {
          if (entry.is_regular_file() && entry.file_size() > (std::uintmax_t{1} << 20)) {
            fs::remove(entry.path());
            return;
          }
        }
        FAIL() << "no data in " << checkpoint;
    }
  }

  /// Saves a step to both levels, with what is above it in memory alone, and ends.
  void save_both(std::uint64_t step) {
    save(step, forced()).wait();
    run_.reset();
  }

  [[nodiscard]] std::optional<std::uint64_t> persist_newest() const {
    const RunImages images(memory(), root(), *context_);
    return images.persist_newest([](const std::exception& why) { ADD_FAILURE() << why.what(); });
  }
};

class BesideDamagedSteps : public BesideOthers, public ::testing::WithParamInterface<Damage> {};

INSTANTIATE_TEST_SUITE_P(All, BesideDamagedSteps,
                         ::testing::Values(Damage::torn_manifest, Damage::garbled_commit, Damage::lost_commit,
                                           Damage::lost_data));

TEST_P(BesideDamagedSteps, TheImageIsGoneOnFrom) {
  save(1, forced()).wait();
  save_both(2);
  damage(on_disk(2), GetParam());
  start();

  expect_resumed(2, ResumedFrom::memory);
}

TEST_P(BesideDamagedSteps, AnOlderImageIsGoneOnFromWhereTheDiskWouldFallBackBehindIt) {
  save(1, forced()).wait();
  save(2);
  save_both(3);
  fs::remove_all(image(3));
  damage(on_disk(3), GetParam());
  start();
  const bool is_no_step = GetParam() == Damage::lost_commit;
  if (!is_no_step) {
    EXPECT_THROW(static_cast<void>(run_->resume({"state"})), Error) << "the program has not said fall_back";
  }

  ResumeOptions how;
  how.fall_back = true;
  std::optional<FlashResumed> resumed = run_->resume({"state"}, how);

  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->step, 2u) << resumed->why;
  EXPECT_EQ(resumed->from, ResumedFrom::memory);
  EXPECT_EQ(resumed->passed_over.size(), is_no_step ? 0u : 1u);
  EXPECT_EQ(resumed->loaded.take<Tree>("state"), state_at(2));
}

TEST_P(BesideDamagedSteps, AnImageIsGoneOnFromWhereTheDiskHasNothingThatIsSound) {
  save(1);
  save_both(2);
  fs::remove_all(image(2));
  damage(on_disk(2), GetParam());
  start();

  ResumeOptions how;
  how.fall_back = true;
  const std::optional<FlashResumed> resumed = run_->resume({"state"}, how);

  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->step, 1u) << resumed->why;
}

TEST_P(BesideDamagedSteps, TheImageIsPersistedAndTheDamagedStepSetAside) {
  save(1, forced()).wait();
  save_both(2);
  damage(on_disk(2), GetParam());

  EXPECT_EQ(persist_newest(), 2u);

  EXPECT_EQ(load(on_disk(2), {}, *context_), state_at(2));
  EXPECT_FALSE(fs::is_empty(root() / ".cairn-damaged"));
  EXPECT_EQ(persist_newest(), std::nullopt);
}

TEST_P(BesideDamagedSteps, ImagesAreNotSaidToBeOnDisk) {
  save_both(2);
  const RunImages images(memory(), root(), *context_);
  EXPECT_EQ(images.persisted(2), Persisted::yes);
  EXPECT_EQ(images.persisted(3), Persisted::no);

  damage(on_disk(2), GetParam());

  EXPECT_EQ(images.persisted(2), Persisted::unknown);
  EXPECT_THAT(images.clean(false).left, ElementsAre(2));
}

TEST_F(BesideOthers, ADamagedStepAboveDoesNotKeepAnImageFromDisk) {
  save(1, forced()).wait();
  save_both(2);
  fs::copy(on_disk(1), on_disk(7), fs::copy_options::recursive);
  damage(on_disk(7), Damage::torn_manifest);
  fs::remove_all(on_disk(2));

  EXPECT_EQ(persist_newest(), 2u);
}

TEST_F(BesideOthers, ADirectoryCalledByANumberDoesNotKeepAnImageFromDisk) {
  fs::create_directories(root() / "2026" / "results");
  save(1, forced()).wait();
  save_both(2);
  fs::remove_all(on_disk(2));

  EXPECT_EQ(persist_newest(), 2u);
}

TEST_F(BesideOthers, ACopyOfAnotherStepCalledByANumberDoesNotKeepAnImageFromDisk) {
  save(1, forced()).wait();
  save_both(2);
  fs::rename(on_disk(1), on_disk(2026));
  fs::remove_all(on_disk(2));

  EXPECT_EQ(persist_newest(), 2u);
}

TEST_F(BesideOthers, ImagesArePersistedByTheNamesOfTheLastProgram) {
  save(1);
  save_both(2);
  options_.disk.names.format = StepFormat("run0");  // What its step 0 is says nothing of the digits.
  options_.disk.names.also_read = {StepFormat()};
  start();
  run_.reset();

  EXPECT_EQ(persist_newest(), std::nullopt) << "2 lies there, as it was called before";
  const RunImages images(memory(), root(), *context_);
  EXPECT_EQ(images.persisted(2), Persisted::yes);
  EXPECT_EQ(images.on_disk(12), root() / "run012");
  fs::remove_all(on_disk(2));
  EXPECT_EQ(persist_newest(), 2u);

  EXPECT_TRUE(fs::exists(root() / "run02"));
}

TEST_F(BesideOthers, ASoundStepAboveDoes) {
  save(1);
  save(2, forced()).wait();
  save_both(3);
  fs::remove_all(image(3));

  EXPECT_EQ(persist_newest(), std::nullopt);
}

}  // namespace
}  // namespace cairn::flash
