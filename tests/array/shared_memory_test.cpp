// SPDX-License-Identifier: Apache-2.0
#include "cairn/array/shared_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ArrayView bytes_of(const std::vector<std::uint8_t>& memory, std::size_t first, std::uint64_t count) {
  return {memory.data() + first, {count}, DType::uint8};
}

TEST(RangeOf, ReachesFromTheFirstByteToTheLast) {
  const std::vector<float> memory(24);
  const auto* data = reinterpret_cast<const std::byte*>(memory.data());
  const ArrayView rows(memory.data() + 2, {3, 2}, DType::float32, {32, 4});
  const ArrayView backwards(memory.data() + 10, {3, 2}, DType::float32, {-16, 4});
  const ArrayView none(memory.data() + 3, {3, 0}, DType::float32, {-16, 4});

  EXPECT_EQ(range_of(rows).begin - data, 8);
  EXPECT_EQ(range_of(rows).end - data, 8 + 64 + 8);
  EXPECT_EQ(range_of(backwards).begin - data, 40 - 32);
  EXPECT_EQ(range_of(backwards).end - data, 40 + 8);
  EXPECT_EQ(range_of(none).begin, range_of(none).end);
}

TEST(IsSameMemory, LooksAtEverything) {
  const std::vector<float> memory(24);
  const ArrayView view(memory.data(), {3, 2}, DType::float32);

  EXPECT_TRUE(is_same_memory(view, ArrayView(memory.data(), {3, 2}, DType::float32)));
  EXPECT_FALSE(is_same_memory(view, ArrayView(memory.data() + 1, {3, 2}, DType::float32)));
  EXPECT_FALSE(is_same_memory(view, ArrayView(memory.data(), {2, 3}, DType::float32)));
  EXPECT_FALSE(is_same_memory(view, ArrayView(memory.data(), {3, 2}, DType::int32)));
  EXPECT_FALSE(is_same_memory(view, ArrayView(memory.data(), {3, 2}, DType::float32, {4, 12})));
  const Device device{Device::Kind::cuda, 0};
  EXPECT_FALSE(is_same_memory(view, ArrayView(memory.data(), {3, 2}, DType::float32, device)));
}

TEST(ArrayMemory, FindsNothingWhereArraysLieApart) {
  const std::vector<std::uint8_t> memory(100);
  ArrayMemory arrays;
  arrays.add(0, bytes_of(memory, 50, 50));
  arrays.add(1, bytes_of(memory, 0, 25));
  arrays.add(2, bytes_of(memory, 25, 25));
  arrays.add(3, bytes_of(memory, 30, 0));

  EXPECT_THAT(arrays.take_meeting(), IsEmpty());
}

TEST(ArrayMemory, FindsAllThatMeetOthers) {
  const std::vector<std::uint8_t> memory(100);
  ArrayMemory arrays;
  arrays.add(7, bytes_of(memory, 0, 60));  // Over both of the next ones.
  arrays.add(3, bytes_of(memory, 10, 5));
  arrays.add(4, bytes_of(memory, 20, 5));
  arrays.add(5, bytes_of(memory, 60, 10));
  arrays.add(6, bytes_of(memory, 80, 10));
  arrays.add(6, bytes_of(memory, 85, 10));  // Of one array.

  EXPECT_THAT(arrays.take_meeting(), ElementsAre(3, 4, 7));
  EXPECT_THAT(arrays.take_meeting(), IsEmpty());
}

TEST(ArrayMemory, TellsDevicesApart) {
  const std::vector<std::uint8_t> memory(100);
  ArrayMemory arrays;
  for (int index = 0; index < 3; ++index) {
    const Device device{index == 2 ? Device::Kind::cpu : Device::Kind::cuda, index % 2};
    arrays.add(static_cast<std::size_t>(index), ArrayView(memory.data(), {100}, DType::uint8, device));
  }
  EXPECT_THAT(arrays.take_meeting(), IsEmpty());
}

TEST(ArrayMemory, FindsWhatALookAtEachPairFinds) {
  const std::vector<std::uint8_t> memory(400);
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::pair<std::size_t, std::size_t>> runs;
    ArrayMemory arrays;
    for (std::size_t i = 0; i < 8; ++i) {
      runs.emplace_back(random() % 350, 1 + random() % 30);
      arrays.add(i, bytes_of(memory, runs[i].first, runs[i].second));
    }
    std::set<std::size_t> expected;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (runs[i].first < runs[j].first + runs[j].second &&
            runs[j].first < runs[i].first + runs[i].second) {
          expected.insert({i, j});
        }
      }
    }

    const std::vector<std::size_t> found = arrays.take_meeting();

    EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin(), expected.end())) << round;
  }
}

TEST(FindOverlap, NamesTwo) {
  const std::vector<std::uint8_t> memory(100);

  EXPECT_EQ(find_overlap(
                std::vector<NamedView>{{"'a'", bytes_of(memory, 0, 10)}, {"'b'", bytes_of(memory, 10, 10)}}),
            "");
  EXPECT_THAT(find_overlap(std::vector<NamedView>{{"'a'", bytes_of(memory, 0, 11)},
                                                  {"'b'", bytes_of(memory, 10, 10)}}),
              AllOf(HasSubstr("'a' and 'b'"), HasSubstr("overlap")));
}

}  // namespace
}  // namespace cairn
