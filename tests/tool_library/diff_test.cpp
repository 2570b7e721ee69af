// SPDX-License-Identifier: Apache-2.0
#include "cairn/tools/diff.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/cairn.hpp"

#include "support/temp_dir.hpp"

namespace cairn {
namespace {

using Aspect = Difference::Aspect;

Tree tree_of(std::vector<float> weights, int step) {
  return {{"w", Array::adopt(std::move(weights))}, {"step", step}};
}

TEST(DiffCheckpoints, IsAValueThatNamesEachPlace) {
  const testing::TempDir folder;
  save(folder / "a", tree_of({1, 2, 3}, 7));
  save(folder / "b", tree_of({1, 2, 5}, 8));

  const CheckpointDiff diff = diff_checkpoints(folder / "a", folder / "b");

  ASSERT_EQ(diff.differences.size(), 2u);
  EXPECT_EQ(diff.differences[0].aspect, Aspect::value);
  EXPECT_EQ(diff.differences[0].name, "state/step");
  EXPECT_EQ(diff.differences[0].a, "7");
  EXPECT_EQ(diff.differences[1].name, "state/w");
  EXPECT_EQ(diff.differences[1].array.value().differing, 1u);
  EXPECT_EQ(diff.differences[1].array.value().largest, 2);
  EXPECT_EQ(diff.arrays, 1u);
  EXPECT_EQ(name(Aspect::only_in_a), "only in A");
}

TEST(DiffCheckpoints, TellsHowFarItHasCome) {
  const testing::TempDir folder;
  save(folder / "a", tree_of({1, 2, 3}, 7));
  save(folder / "b", tree_of({1, 2, 5}, 7));
  std::vector<std::uint64_t> seen;
  DiffOptions options;
  options.tolerance = 2;
  options.progress = [&seen](std::uint64_t done_bytes, std::uint64_t total_bytes) {
    seen.insert(seen.end(), {done_bytes, total_bytes});
  };

  const CheckpointDiff diff = diff_checkpoints(folder / "a", folder / "b", options);

  EXPECT_TRUE(diff.differences.empty());
  EXPECT_THAT(seen, ::testing::ElementsAre(12, 12));
}

TEST(DiffCheckpoints, ReadsNothingOfFilesWithTheSameHashes) {
  const testing::TempDir folder;
  save(folder / "a", tree_of({1, 2, 3}, 7));
  save(folder / "b", tree_of({1, 2, 3}, 7));

  const CheckpointDiff diff =
      diff_checkpoints(checkpointables_metadata(folder / "a"), checkpointables_metadata(folder / "b"));

  EXPECT_TRUE(diff.differences.empty());
  EXPECT_EQ(diff.compared_bytes, 0u);
  EXPECT_GT(diff.same_files_bytes, 0u);
}

}  // namespace
}  // namespace cairn
