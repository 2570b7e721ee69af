// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "staging/internal/buffer_pool.hpp"
#include "support/fails.hpp"

namespace cairn::staging {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

constexpr std::size_t kMebi = std::size_t{1} << 20;

TEST(BufferPoolHook, IsToldOfMemoryThatIsReserved) {
  std::vector<std::size_t> sizes;
  BufferPool pool(64 * kMebi, [&](std::span<std::byte> memory) {
    sizes.push_back(memory.size());
    return nullptr;
  });

  pool.reserve(48 * kMebi, 2);

  EXPECT_EQ(sizes, std::vector{48 * kMebi});
}

TEST(BufferPoolHook, IsToldOfMemoryThatIsTakenLaterAndOnce) {
  std::size_t bytes = 0;
  BufferPool pool(8 * kMebi, [&](std::span<std::byte> memory) {
    bytes += memory.size();
    return nullptr;
  });

  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(pool.try_acquire());
  }

  EXPECT_EQ(bytes, pool.allocated_bytes());
}

TEST(BufferPoolHook, LetsItsResultGoBeforeTheMemory) {
  std::byte last{};
  const auto look = [&last](std::byte* memory) { last = *memory; };
  {
    BufferPool pool(8 * kMebi, [&](std::span<std::byte> memory) {
      return std::shared_ptr<void>(std::shared_ptr<std::byte>(memory.data(), look));
    });
    pool.try_acquire().bytes()[0] = std::byte{7};
  }

  EXPECT_EQ(last, std::byte{7});
}

TEST(BufferPoolHook, PassesOnWhatItThrows) {
  BufferPool pool(8 * kMebi, [](std::span<std::byte>) -> std::shared_ptr<void> {
    throw Error(Errc::device_failure, "no");
  });

  EXPECT_THAT([&] { pool.reserve(8 * kMebi, 1); }, Fails(Errc::device_failure, HasSubstr("no")));
  EXPECT_EQ(pool.allocated_bytes(), 0u);
}

}  // namespace
}  // namespace cairn::staging
