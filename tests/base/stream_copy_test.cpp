// SPDX-License-Identifier: Apache-2.0
#include "base/internal/stream_copy.hpp"

#include <algorithm>
#include <vector>

#include <gmock/gmock.h>

namespace cairn {
namespace {

TEST(StreamCopy, CopiesEveryByteAndNoOtherAtAnyAlignmentAndSize) {
  constexpr std::size_t kRoom = 20000;
  std::vector<std::byte> from(kRoom);
  for (std::size_t i = 0; i < kRoom; ++i) {
    from[i] = static_cast<std::byte>(i * 31 % 251);
  }
  for (const std::size_t bytes : {0, 1, 63, 64, 4095, 4096, 4097, 8191, 16384}) {
    for (const std::size_t to_offset : {0, 1, 15, 16, 63}) {
      for (const std::size_t from_offset : {0, 7}) {
        std::vector<std::byte> to(kRoom, std::byte{0xEE});
        std::vector<std::byte> expected = to;
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(from_offset), bytes,
                    expected.begin() + static_cast<std::ptrdiff_t>(to_offset));

        stream_copy(to.data() + to_offset, from.data() + from_offset, bytes);

        ASSERT_EQ(to, expected) << bytes << " bytes from " << from_offset << " to " << to_offset;
      }
    }
  }
}

TEST(StreamCopies, CopyOneAfterTheOther) {
  const std::vector<std::byte> from(10'000, std::byte{7});
  std::vector<std::byte> to(30'000, std::byte{0xEE});
  {
    StreamCopies copies;
    copies.add(to.data(), from.data(), 10'000);
    copies.add(to.data() + 10'000, from.data(), 0);
    copies.add(to.data() + 20'000, from.data(), 5);
  }

  EXPECT_EQ(std::count(to.begin(), to.end(), std::byte{7}), 10'005);
  EXPECT_EQ(std::count(to.begin(), to.begin() + 10'000, std::byte{7}), 10'000);
}

}  // namespace
}  // namespace cairn
