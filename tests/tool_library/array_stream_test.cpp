// SPDX-License-Identifier: Apache-2.0
#include "tools/internal/array_stream.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cairn/cairn.hpp"

#include "support/temp_dir.hpp"
#include "tool_library/numbered.hpp"

namespace cairn::tools {
namespace {

using testing::numbered;

TEST(ArrayStream, GivesAllBytesInOrderInPiecesOfABatchAtMost) {
  const testing::TempDir folder;
  const Array large = numbered({3, 8'000'001});  // 92 MiB.
  const Array packed = Array::zeros({6, 2}, DType::float4);
  save(folder / "x", Tree{{"large", large}, {"none", numbered({0, 4})}, {"packed", packed}});
  const Box box({0, 1}, {3, 8'000'000});
  const std::vector<Region> regions = {{"large", DType::int32, large.shape(), box},
                                       {"none", DType::int32, {0, 4}, Box::whole({0, 4})},
                                       {"packed", DType::float4, packed.shape(), Box::whole({6, 2})},
                                       {"large", DType::int32, large.shape(), Box({2, 0}, {1, 1})}};
  std::vector<std::vector<std::byte>> found(regions.size());
  std::size_t pieces = 0;

  ArrayStream stream(ArrayReader(folder / "x"), regions);
  while (const std::optional<RegionPiece> piece = stream.next()) {
    ++pieces;
    EXPECT_LE(piece->bytes.size(), std::size_t{64} << 20);
    EXPECT_EQ(piece->offset_bytes, found[piece->region].size());
    found[piece->region].insert(found[piece->region].end(), piece->bytes.begin(), piece->bytes.end());
  }

  EXPECT_EQ(pieces, 4u);
  const Array part = large.part(box).clone();
  EXPECT_TRUE(std::ranges::equal(found[0], part.view().bytes()));
  EXPECT_TRUE(found[1].empty());
  EXPECT_EQ(found[2], std::vector<std::byte>(6));
  EXPECT_EQ(found[3].size(), 4u);
  EXPECT_FALSE(stream.next());
}

}  // namespace
}  // namespace cairn::tools
