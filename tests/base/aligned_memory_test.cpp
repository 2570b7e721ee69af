// SPDX-License-Identifier: Apache-2.0
#include "base/internal/aligned_memory.hpp"

#include <cstdint>
#include <utility>

#include <gmock/gmock.h>

namespace cairn {
namespace {

std::uintptr_t address(const AlignedMemory& memory) {
  return reinterpret_cast<std::uintptr_t>(memory.data());
}

TEST(AlignedMemory, StartsOnAPageAndIsZero) {
  const AlignedMemory memory(5000);

  EXPECT_EQ(memory.size(), 8192u);
  EXPECT_EQ(address(memory) % 4096, 0u);
  EXPECT_EQ(memory.bytes()[4999], std::byte{0});
}

TEST(AlignedMemory, LargePiecesStartOnAHugePage) {
  const AlignedMemory memory(std::size_t{3} << 20);
  touch(memory.data(), memory.size());

  EXPECT_EQ(address(memory) % (std::size_t{2} << 20), 0u);
  EXPECT_EQ(memory.size(), std::size_t{3} << 20);
}

TEST(AlignedMemory, IsEmptyAfterAMove) {
  AlignedMemory memory(1);
  const std::byte* data = memory.data();

  const AlignedMemory taken = std::move(memory);

  EXPECT_EQ(taken.data(), data);
  EXPECT_EQ(memory.data(), nullptr);  // NOLINT: the moved-from state is the subject.
}

TEST(AlignedMemory, NoBytesNeedNoPages) {
  EXPECT_EQ(AlignedMemory(0).data(), nullptr);
}

}  // namespace
}  // namespace cairn
