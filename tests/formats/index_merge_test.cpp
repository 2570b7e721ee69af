// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/index_merge.hpp"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "support/fails.hpp"

namespace cairn::formats {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

using MergeDims = std::vector<std::uint64_t>;

Index opened(IndexBytes bytes, const std::string& path = "index.fb") {
  Index index = Index::open(std::move(bytes.owner), bytes.bytes, path);
  index.validate();
  return index;
}

/// What a rank of four says of an array of 8 rows: that it has two of them.
Index of_rank(std::uint64_t rank, DType dtype = DType::int8, std::uint64_t columns = 3) {
  IndexBuilder builder;
  const std::uint32_t policy = builder.add_policy(rank == 3 ? "By device." : "One file each.");
  const std::uint32_t file = builder.add_file(fmt::format("data-r{:05}-000.safetensors", rank), policy);
  builder.add_array("w", dtype, MergeDims{8, columns});
  builder.add_slice(file, 4096 + rank, MergeDims{2 * rank, 0}, MergeDims{2, columns});
  builder.set_layout(builder.add_layout("{}"));
  builder.add_array(fmt::format("z{}", rank), DType::int8, MergeDims{1});
  builder.add_whole(file, 8192);
  if (rank == 0) {
    builder.add_integer("step", 7);
    builder.add_string("note", "hi");
  }
  return opened(builder.finish(), fmt::format("rank {}", rank));
}

TEST(MergeIndexes, PutsTheSlicesOfAllRanksInOrder) {
  const std::vector<Index> indexes = {of_rank(0), of_rank(3), of_rank(1), of_rank(2)};

  const Index merged = opened(merge_indexes(indexes));

  ASSERT_EQ(merged.size(), 7u);
  const IndexArray w = merged.array(merged.entry(*merged.find("w")));
  ASSERT_EQ(w.slice_count, 4u);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const IndexSlice slice = merged.slice(w, i);
    EXPECT_THAT(slice.offsets, ElementsAre(2 * i, 0));
    EXPECT_EQ(slice.offset, 4096u + i);
    EXPECT_EQ(slice.file, fmt::format("data-r{:05}-000.safetensors", i));
  }
  EXPECT_EQ(merged.entry(*merged.find("step")).as_integer(), 7);
  EXPECT_EQ(merged.string(merged.entry(*merged.find("note"))), "hi");
  EXPECT_EQ(merged.layout(merged.entry(*merged.find("w"))), "{}");
  EXPECT_EQ(merged.layout(merged.entry(*merged.find("z2"))), "");
  EXPECT_EQ(merged.policy_count(), 2u);
  EXPECT_EQ(merged.policy_of_file(merged.slice(w, 0).file_number), "One file each.");
  EXPECT_EQ(merged.policy_of_file(merged.slice(w, 3).file_number), "By device.");
}

TEST(MergeIndexes, GivesTheSameInSteps) {
  const std::vector<Index> all = {of_rank(0), of_rank(1), of_rank(2), of_rank(3)};
  const std::vector<Index> left = {of_rank(0), of_rank(1)};
  const std::vector<Index> right = {of_rank(2), of_rank(3)};

  const IndexBytes at_once = merge_indexes(all);
  const std::vector<Index> halves = {opened(merge_indexes(left)), opened(merge_indexes(right))};
  const IndexBytes in_steps = merge_indexes(halves);

  ASSERT_EQ(at_once.bytes.size(), in_steps.bytes.size());
  EXPECT_EQ(std::memcmp(at_once.bytes.data(), in_steps.bytes.data(), at_once.bytes.size()), 0);
}

TEST(MergeIndexes, OfNoneIsEmpty) {
  EXPECT_EQ(opened(merge_indexes({})).size(), 0u);
}

TEST(MergeIndexes, RefusesArraysThatDiffer) {
  const std::vector<Index> dtypes = {of_rank(0), of_rank(2, DType::int16)};
  const std::vector<Index> shapes = {of_rank(0), of_rank(2, DType::int8, 4)};
  IndexBuilder builder;
  builder.add_integer("w", 1);
  const std::vector<Index> kinds = {of_rank(0), opened(builder.finish(), "rank 2")};

  EXPECT_THAT([&] { static_cast<void>(merge_indexes(dtypes)); },
              Fails(Errc::dtype_mismatch, AllOf(HasSubstr("rank 2: 'w'"), HasSubstr("I16"))));
  EXPECT_THAT([&] { static_cast<void>(merge_indexes(shapes)); },
              Fails(Errc::shape_mismatch, AllOf(HasSubstr("rank 2: 'w'"), HasSubstr("[8, 4]"))));
  const std::vector<Index> turned = {kinds[1], kinds[0]};
  EXPECT_THAT([&] { static_cast<void>(merge_indexes(kinds)); },
              Fails(Errc::type_mismatch, HasSubstr("rank 2: 'w'")));
  EXPECT_THAT([&] { static_cast<void>(merge_indexes(turned)); },
              Fails(Errc::type_mismatch, HasSubstr("rank 0: 'w'")));
}

}  // namespace
}  // namespace cairn::formats
