// SPDX-License-Identifier: Apache-2.0
// A training leaves more, written here once and never replaced: a checkpoint that was made of parts, a part that
// waits for others, and how a program has ended. What golden_run_test.cpp says of a test that fails holds here, too.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/training/partial_save.hpp"

#include "support/test_data.hpp"
#include "training/fixture.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using testing::list_tree;
using testing::read_text;

const fs::path kGoldenTraining = testing::test_data() / "golden/training-v1";

class GoldenTraining : public testing::TrainingTest {
 protected:
  GoldenTraining() : TrainingTest(reproducible()) {}

  static ContextOptions reproducible() {
    ContextOptions options = small();
    options.random = [](std::span<std::byte> bytes) {
      std::uint8_t next = 0;
      std::generate(bytes.begin(), bytes.end(), [&next] { return std::byte{next++}; });
    };
    return options;
  }

  static Tree layer(int number) {
    return {{"layers", {{"layer" + std::to_string(number), {{"w", std::vector<float>{0.5F, -1.0F}}}}}}};
  }

  static CheckpointerOptions estimating() {
    CheckpointerOptions options;
    options.save = save_when::automatic();
    return options;
  }

  static PartialSaveOptions of_run() {
    PartialSaveOptions options;
    options.run = "golden";
    return options;
  }

  void save_golden(const fs::path& path) const {
    clock_->advance(std::chrono::seconds(1769860800));  // 2026-01-31T12:00:00Z, and an hour.
    {
      Checkpointer run(path, estimating(), *context_);
      run.save(90, {{"state", tree_}}, Metrics{{"loss", 0.5}});
      run.wait();
      clock_->advance(std::chrono::hours(5));
      run.close();
    }
    PartialSave imported(path / "imported", of_run(), *context_);
    imported.add({{"state", layer(0)}});
    imported.add({{"state", layer(1)}});
    imported.finalize();
    PartialSave(path / "later", of_run(), *context_).add({{"state", layer(0)}});
    fs::remove(path / ".partial-later/.owner");  // Says which process has written it.
  }

  /// As programs work there, which change it.
  [[nodiscard]] fs::path copy() const {
    fs::copy(kGoldenTraining, root(), fs::copy_options::recursive);
    return root();
  }
};

TEST_F(GoldenTraining, HasACheckpointThatWasMadeOfParts) {
  EXPECT_EQ(load(kGoldenTraining / "imported", {}, *context_).at("layers").size(), 2u);
  EXPECT_TRUE(verify(kGoldenTraining / "imported", {}, *context_).is_sound());
  EXPECT_EQ(checkpointables_metadata(kGoldenTraining / "imported", {}, *context_).annotations,
            R"({"cairn.partial":{"run":"golden","first":"00010203-0405-4607-8809-0a0b0c0d0e0f"}})");
}

TEST_F(GoldenTraining, HasAPartThatOthersJoin) {
  const fs::path path = copy();
  PartialSave later(path / "later", of_run(), *context_);
  ASSERT_EQ(later.parts(), 1u);
  later.add({{"state", layer(1)}});

  later.finalize();

  EXPECT_EQ(load(path / "later", {}, *context_).at("layers").size(), 2u);
}

TEST_F(GoldenTraining, KnowsHowItsProgramHasEnded) {
  const FailureHistory history = Checkpointer(copy(), estimating(), *context_).failures();

  EXPECT_EQ(history.programs, 2u);  // And this one.
  EXPECT_EQ(history.failures, 0u);
  EXPECT_EQ(history.lived, std::chrono::hours(5));
}

/// With CAIRN_WRITE_GOLDEN_TRAINING=<path> in the environment, writes a golden one there: for a new version of the
/// format.
TEST_F(GoldenTraining, IsWrittenTheSameToTheByte) {
  const char* wanted = std::getenv("CAIRN_WRITE_GOLDEN_TRAINING");
  const fs::path path = wanted != nullptr ? fs::path(wanted) : root();

  save_golden(path);

  ASSERT_EQ(list_tree(path), list_tree(kGoldenTraining));
  for (const std::string& name : list_tree(kGoldenTraining)) {
    if (fs::is_regular_file(kGoldenTraining / name)) {
      EXPECT_TRUE(read_text(path / name) == read_text(kGoldenTraining / name)) << name;
    }
  }
}

}  // namespace
}  // namespace cairn
