// SPDX-License-Identifier: Apache-2.0
#include "cairn/sharding/holdings.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/fails.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

Holding rows(std::uint64_t begin, std::uint64_t end) {
  return {"w", DType::int8, {8, 3}, {{Box({begin, 0}, {end - begin, 3}), 0}}};
}

const std::string kLines = "'step': integer\n'w': sharded array of int8 [8, 3]\n";

TEST(Holdings, ComeTogetherInTheOrderOfRanks) {
  const std::string merged =
      merge_holdings(std::vector<std::string>{encode_holdings(0, kLines, std::vector{rows(0, 3)}),
                                              encode_holdings(2, kLines, std::vector{rows(3, 4)}),
                                              encode_holdings(1, kLines, std::vector{rows(4, 8)})});

  const std::vector<PlannedArray> arrays = decode_holdings(merged, std::vector{rows(0, 3)}, 3);

  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(arrays[0].name, "w");
  EXPECT_EQ(arrays[0].sharding.boxes(1, {8, 3}), rows(4, 8).boxes);
  EXPECT_EQ(arrays[0].sharding.boxes(2, {8, 3}), rows(3, 4).boxes);
}

TEST(Holdings, OfRanksThatDifferAreRefused) {
  const auto merge = [](const std::string& other) {
    return [other] {
      static_cast<void>(merge_holdings(
          std::vector<std::string>{encode_holdings(3, kLines, {}), encode_holdings(5, other, {})}));
    };
  };

  EXPECT_THAT(merge("'step': integer\n'v': null\n"),
              Fails(Errc::invalid_argument,
                    AllOf(HasSubstr("rank 3 has 'w': sharded array"), HasSubstr("rank 5 has 'v': null"))));
  EXPECT_THAT(merge("'step': integer\n"),
              Fails(Errc::invalid_argument, HasSubstr("rank 5 has nothing more")));
  EXPECT_THAT(merge(""), Fails(Errc::invalid_argument, HasSubstr("rank 5 has nothing more")));
  EXPECT_THAT(merge(kLines + "\n"), Fails(Errc::invalid_argument, HasSubstr("rank 5 has nothing more")));
}

TEST(Holdings, ThatAreCutShortAreRefused) {
  const std::vector<Holding> mine = {rows(0, 8)};
  const std::string whole = encode_holdings(0, kLines, mine);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    if (bytes == 8 + kLines.size()) {
      continue;  // Of no rank.
    }
    EXPECT_THAT([&] { static_cast<void>(decode_holdings(whole.substr(0, bytes), mine, 1)); },
                Fails(Errc::malformed_metadata, HasSubstr("too early")))
        << bytes;
  }
}

TEST(Shares, ComeBack) {
  const std::vector<Holding> mine = {rows(0, 8), {"x", DType::int8, {}, {{Box(), 0}}}};
  const std::vector<Share> shares = {{0, Box({2, 0}, {1, 3})}, {1, Box()}};

  EXPECT_EQ(decode_shares(encode_shares(shares), mine), shares);
}

TEST(Shares, ThatDoNotFitAreRefused) {
  const std::vector<Holding> mine = {rows(0, 8)};
  const auto decode = [&](const Share& share) {
    return [&mine, share] { static_cast<void>(decode_shares(encode_shares(std::vector{share}), mine)); };
  };

  EXPECT_THAT(decode({1, Box({0, 0}, {1, 3})}), Fails(Errc::malformed_metadata, HasSubstr("array 1 of 1")));
  EXPECT_THAT(decode({0, Box({8, 0}, {1, 3})}), Fails(Errc::malformed_metadata, HasSubstr("'w'")));
}

}  // namespace
}  // namespace cairn
