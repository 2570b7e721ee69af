// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/sharding/policy.hpp"

#include "sharding/slow_model.hpp"
#include "support/fails.hpp"

namespace cairn {
namespace {

using testing::Dice;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ShardableTensor whole(std::string_view key, Shape full, DType dtype = DType::float32) {
  ShardableTensor made;
  made.key = key;
  made.size_bytes = *byte_count(dtype, full);
  made.full = std::move(full);
  made.dtype = dtype;
  return made;
}

/// The only file's parts, as TensorFlow writes slices; empty for what is not cut.
std::vector<std::string> tiles_of(const Tiles& policy, const std::vector<ShardableTensor>& tensors) {
  const std::vector<FilePlan> files = policy(tensors);
  check_policy_result(policy, tensors, files);
  std::vector<std::string> texts;
  for (const TensorPart& part : files.at(0)) {
    texts.push_back(part.box ? slice_spec(tensors[part.tensor].full, *part.box) : "");
  }
  EXPECT_EQ(files.size(), 1u);
  return texts;
}

TEST(TilesPolicy, HalvesTheLongestExtentOfSeveralTheInnermost) {
  EXPECT_THAT(tiles_of(Tiles(16), {whole("a", {4, 4})}),
              ElementsAre("4 4 0,2:0,2", "4 4 0,2:2,2", "4 4 2,2:0,2", "4 4 2,2:2,2"));
  EXPECT_THAT(tiles_of(Tiles(32), {whole("a", {4, 4})}), ElementsAre("4 4 0,4:0,2", "4 4 0,4:2,2"));
  EXPECT_THAT(tiles_of(Tiles(12), {whole("a", {7})}), ElementsAre("7 0,2", "7 2,2", "7 4,2", "7 6,1"));
}

TEST(TilesPolicy, CutsOnlyAlongTheAxesThatItIsGiven) {
  EXPECT_THAT(tiles_of(Tiles(16, {1}), {whole("a", {4, 4})}),
              ElementsAre("4 4 0,4:0,1", "4 4 0,4:1,1", "4 4 0,4:2,1", "4 4 0,4:3,1"));
  EXPECT_THAT(tiles_of(Tiles(16, {1}), {whole("a", {8})}), ElementsAre("8 0,8"));
  EXPECT_THAT(tiles_of(Tiles(16, {0, 5}), {whole("a", {8})}), ElementsAre("8 0,4", "8 4,4"));
}

TEST(TilesPolicy, LeavesWhatIsSmallOrCannotBeCut) {
  EXPECT_THAT(tiles_of(Tiles(4), {whole("small", {1}), whole("scalar", Shape{}, DType::complex64),
                                  whole("packed", {64}, DType::float4), whole("none", {0, 9})}),
              ElementsAre("", "", "", ""));
  EXPECT_THAT(tiles_of(Tiles(4), {whole("wide", {2}, DType::float64)}), ElementsAre("2 0,1", "2 1,1"));
  EXPECT_THAT(tiles_of(Tiles(4), {whole("pairs", {2}, DType::complex128)}), ElementsAre("2 0,1", "2 1,1"));
}

TEST(TilesPolicy, CutsASliceWhereItBegins) {
  ShardableTensor tensor = whole("a", {8, 4});
  tensor.slice = Box({4, 0}, {4, 4});
  tensor.size_bytes = 64;

  EXPECT_THAT(tiles_of(Tiles(32), {tensor}), ElementsAre("8 4 4,4:0,2", "8 4 4,4:2,2"));
}

TEST(TilesPolicy, MakesAFileForEachTask) {
  std::vector<ShardableTensor> tensors = {whole("a", {2}), whole("b", {2}), whole("c", {2})};
  tensors[1].task = 1;

  const std::vector<FilePlan> files = Tiles()(tensors);

  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].size(), 2u);
  EXPECT_EQ(files[1].at(0).tensor, 1u);
}

TEST(TilesPolicy, ColumnsOfAPowerOfTwoOfRanksCutNoTile) {
  const std::vector<ShardableTensor> tensors = {whole("w", {4096, 16384})};
  const std::vector<FilePlan> files = Tiles()(tensors);
  for (const std::uint64_t ranks : {2, 4, 8}) {
    for (const TensorPart& part : files.at(0)) {
      const std::uint64_t width = 16384 / ranks;
      EXPECT_EQ(part.box->begin(1) / width, (part.box->end(1) - 1) / width);
    }
  }
}

TEST(TilesPolicy, WarnsOfTilesBelowWhatIsReadAtLeast) {
  EXPECT_THAT(Tiles(1000).warnings({}, {}), ElementsAre(HasSubstr("1000 bytes")));
  EXPECT_THAT(Tiles().warnings({}, {}), IsEmpty());
  EXPECT_THAT([] { return Tiles(0); }, Fails(Errc::invalid_argument, HasSubstr("must be positive")));
}

TEST(TilesPolicy, KeepToTheSizeAndLoseNothing) {
  Dice dice(7);
  for (int i = 0; i < 400; ++i) {
    ShardableTensor tensor = whole("a", testing::random_shape(dice, 300));
    const auto boxes = testing::random_sharding(dice, tensor.full).boxes(0, tensor.full);
    if (!boxes.empty() && dice.one_in(2)) {
      tensor.slice = boxes[0].box;
      tensor.size_bytes = *byte_count(tensor.dtype, boxes[0].box.extents());
    }
    const std::uint64_t bytes = 4 + dice.below(200);
    const std::vector<FilePlan> files = Tiles(bytes)(std::span(&tensor, 1));

    ASSERT_NO_THROW(check_policy_result(Tiles(bytes), std::span(&tensor, 1), files));
    for (const TensorPart& part : files.at(0)) {
      const Box box = part.box ? *part.box : tensor.region();
      ASSERT_LE(*byte_count(tensor.dtype, box.extents()), bytes) << box;
    }
  }
}

}  // namespace
}  // namespace cairn
