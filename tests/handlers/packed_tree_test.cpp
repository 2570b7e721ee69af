// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/packed_tree.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "support/fails.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

Tree unpacked(const std::string& text) {
  return unpack_tree(std::as_bytes(std::span(text)), "common.tree");
}

TEST(PackedTrees, ComeBack) {
  const std::vector<float> elements = {1.5F, 2.5F, 3.5F};
  const std::vector<Tree> trees = {
      Tree(),
      Tree(7),
      Tree::map(),
      Tree::list({}),
      Tree(elements),
      {{"a", {{"b/c", 1}, {"list", Tree::list({1, "two", Tree::map(), Bytes{std::byte{3}}})}}},
       {"array", elements},
       {"none", Array({0, 3}, DType::int8)},
       {"large", UINT64_MAX},
       {"scalar", Array({}, DType::float64)}}};
  for (const Tree& tree : trees) {
    EXPECT_EQ(unpacked(pack_tree(tree)), tree);
  }
}

TEST(PackedTrees, HaveDenseArrays) {
  const Array columns = Array::zeros({4, 8}, DType::int32).part(Box({0, 2}, {4, 2}));

  EXPECT_EQ(unpacked(pack_tree(Tree{{"a", columns}})), (Tree{{"a", columns.clone()}}));
}

TEST(PackedTrees, HaveNoShards) {
  EXPECT_THAT(
      [] {
        static_cast<void>(pack_tree(Tree{{"a", ShardedArray({3}, DType::int8)}}));
      },
      Fails(Errc::invalid_argument, HasSubstr("'a': a packed tree has arrays of the host's memory only")));
}

TEST(PackedTrees, ThatAreDamagedAreRefusedOrTrees) {
  const std::string text = pack_tree(Tree{{"a", Tree::list({1, 2})}, {"b", std::vector<int>{1, 2, 3}}});
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 5);
    try {
      static_cast<void>(unpacked(damaged));
    } catch (const Error& error) {
      EXPECT_THAT(error.code(), ::testing::AnyOf(Errc::malformed_metadata, Errc::unsupported_version))
          << error.what();
    }
  }
}

}  // namespace
}  // namespace cairn
