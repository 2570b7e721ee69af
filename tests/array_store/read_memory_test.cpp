// SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <vector>

#include <gmock/gmock.h>

#include "array_store/index_of.hpp"
#include "array_store/memory_files.hpp"
#include "array_store/read_steps.hpp"

namespace cairn::array_store {
namespace {

/// Arrays of bytes, of these sizes and gaps before them, one behind the other in a file.
class ReadMemoryTest : public ::testing::Test {
 protected:
  void add(std::uint64_t size, std::uint64_t gap = 0) {
    Region region;
    region.begin = end_ + gap;
    region.end = end_ = region.begin + size;
    region.array = arrays_.size();
    regions_["file"].push_back(region);
    dims_.push_back(size);
    ReadArray array;
    array.first = arrays_.size();
    array.stored.dims = std::span(&dims_.back(), 1);
    array.dtype = DType::uint8;
    array.is_plain = true;
    array.is_small = size <= kMostSmallBytes;
    arrays_.push_back(array);
  }

  std::vector<Array> allocated() {
    std::vector<Array> memory(arrays_.size());
    allocate(arrays_, regions_, memory);
    return memory;
  }

  static bool are_neighbours(const Array& a, const Array& b, std::uint64_t gap = 0) {
    return a.owner() == b.owner() && a.view().data() + a.byte_count() + gap == b.view().data();
  }

  std::uint64_t end_ = 0;
  std::deque<std::uint64_t> dims_;
  std::vector<ReadArray> arrays_;
  RegionsByFile regions_;
};

TEST_F(ReadMemoryTest, PutsSmallNeighboursOfTheFileSideBySide) {
  for (int i = 0; i < 3; ++i) {
    add(kMostSmallBytes);
  }

  const auto memory = allocated();

  EXPECT_TRUE(are_neighbours(memory[0], memory[1]));
  EXPECT_TRUE(are_neighbours(memory[1], memory[2]));
}

TEST_F(ReadMemoryTest, SpansSmallGaps) {
  add(kMostSmallBytes);
  add(kMostSmallBytes, 4095);

  const auto memory = allocated();

  EXPECT_TRUE(are_neighbours(memory[0], memory[1], 4095));
}

TEST_F(ReadMemoryTest, SeparatesWhatLiesFarApart) {
  for (const std::uint64_t gap : {0, 0, 4096, 0}) {
    add(kMostSmallBytes, gap);
  }

  const auto memory = allocated();

  EXPECT_TRUE(are_neighbours(memory[0], memory[1]));
  EXPECT_NE(memory[1].owner(), memory[2].owner());
  EXPECT_TRUE(are_neighbours(memory[2], memory[3]));
}

TEST_F(ReadMemoryTest, GivesFewSmallArraysMemoryOfTheirOwn) {
  add(100);
  add(100);

  const auto memory = allocated();

  EXPECT_NE(memory[0].owner(), memory[1].owner());
}

TEST_F(ReadMemoryTest, GivesALargeArrayMemoryOfItsOwn) {
  add(kMostSmallBytes);
  add(kMostSmallBytes + 1);
  add(kMostSmallBytes);

  const auto memory = allocated();

  EXPECT_NE(memory[0].owner(), memory[1].owner());
  EXPECT_NE(memory[1].owner(), memory[2].owner());
}

TEST_F(ReadMemoryTest, BoundsWhatOneArrayKeepsAlive) {
  for (int i = 0; i < 200; ++i) {
    add(kMostSmallBytes);
  }

  const auto memory = allocated();

  EXPECT_EQ(memory[0].owner(), memory[63].owner());
  EXPECT_NE(memory[0].owner(), memory[64].owner());  // 4 MiB on.
}

TEST_F(ReadMemoryTest, UsesTheMemoryOfTheCaller) {
  add(1000);
  const Array destination({1000}, DType::uint8);
  arrays_[0].destination = &destination;
  arrays_[0].is_plain = arrays_[0].is_small = false;

  EXPECT_EQ(allocated().at(0).view().data(), destination.view().data());
}

TEST_F(ReadMemoryTest, MapsWhatIsPlainAndLeavesTheRest) {
  add(4);
  add(4);
  add(4);
  arrays_[1].is_plain = arrays_[1].is_small = false;
  testing::MemoryFiles files;
  files.texts["file"] = "abcdefghijkl";

  std::vector<Array> memory(arrays_.size());
  map_arrays(arrays_, regions_, files, memory);
  allocate(arrays_, regions_, memory);

  ASSERT_EQ(regions_.at("file").size(), 1u);
  EXPECT_EQ(regions_.at("file").front().array, 1u);
  EXPECT_FALSE(memory[0].is_mutable());
  EXPECT_EQ(memory[2].data<const std::uint8_t>()[0], 'i');
  EXPECT_TRUE(memory[1].is_mutable());
}

}  // namespace
}  // namespace cairn::array_store
