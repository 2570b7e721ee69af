// SPDX-License-Identifier: Apache-2.0
#include "base/internal/value_groups.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "support/fails.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

ValueGroup of(std::uint32_t rank, std::string_view says) {
  ValueGroup group;
  group.ranks.add(rank);
  group.value = says;
  return group;
}

TEST(ValueGroups, ThatAreTheSameAreSaidOnce) {
  const std::vector<ValueGroup> all = {of(4, "a"), of(1, "b"), of(0, "a"), of(2, "a")};

  EXPECT_EQ(to_string(merge_value_groups(all)), "ranks 0, 2 and 4 have a, rank 1 has b");
}

TEST(ValueGroups, AreAFewWhereAllRanksDiffer) {
  std::vector<std::string> texts;
  std::vector<ValueGroup> all;
  for (std::uint32_t rank = 0; rank < 10; ++rank) {
    texts.push_back(std::to_string(rank));
  }
  for (std::uint32_t rank = 10; rank > 0; --rank) {
    all.push_back(of(rank - 1, texts[rank - 1]));
  }

  EXPECT_EQ(to_string(merge_value_groups(all)), "rank 0 has 0, rank 1 has 1, rank 2 has 2, rank 3 has 3");
}

TEST(ValueGroups, ComeBack) {
  const std::vector<ValueGroup> all = {of(4, ""), of(1, "b")};

  EXPECT_EQ(to_string(decode_value_groups(encode_value_groups(all))), "rank 4 has , rank 1 has b");
}

TEST(ValueGroups, ThatAreCutShortOrNobodysAreRefused) {
  const std::string whole = encode_value_groups(std::vector{of(4, "a")});
  for (std::size_t bytes = 1; bytes < whole.size(); ++bytes) {
    EXPECT_THAT([&] { static_cast<void>(decode_value_groups(std::string_view(whole).substr(0, bytes))); },
                Fails(Errc::malformed_metadata, HasSubstr("too early")));
  }
  const std::string nobodys = encode_value_groups(std::vector<ValueGroup>{{{}, "a"}});
  EXPECT_THAT([&] { static_cast<void>(decode_value_groups(nobodys)); },
              Fails(Errc::malformed_metadata, HasSubstr("does not name its rank")));
}

}  // namespace
}  // namespace cairn
