// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/packed_tree.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "support/fails.hpp"

namespace cairn::formats {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

const std::array<std::uint16_t, 3> kElements = {1, 2, 3};

std::string packed(const PackedForm& form = kPackedTree) {
  TreePacker packer(form);
  packer.entries().add_integer("step", 7);
  packer.add_array("a", DType::uint16, std::vector<std::uint64_t>{3}, std::as_bytes(std::span(kElements)));
  packer.add_array("b", DType::uint16, std::vector<std::uint64_t>{1, 2},
                   std::as_bytes(std::span(kElements).first(2)));
  return packer.finish();
}

PackedTree opened(std::string_view text, const PackedForm& form = kPackedTree) {
  return PackedTree::open(std::as_bytes(std::span(text)), form, "common.tree");
}

std::span<const std::byte> elements_of(const PackedTree& tree, std::string_view name) {
  return tree.elements(tree.index().array(tree.index().entry(tree.index().find(name).value())));
}

TEST(PackedTree, ComesBack) {
  for (const PackedForm& form : {kPackedTree, kValueOfRank}) {
    const std::string text = packed(form);

    const PackedTree tree = opened(text, form);

    EXPECT_EQ(tree.index().size(), 3u);
    EXPECT_EQ(tree.index().entry(tree.index().find("step").value()).as_integer(), 7);
    EXPECT_EQ(elements_of(tree, "a").size(), sizeof kElements);
    EXPECT_EQ(std::memcmp(elements_of(tree, "a").data(), kElements.data(), sizeof kElements), 0);
    EXPECT_EQ(elements_of(tree, "b").size(), 4u);
  }
}

TEST(PackedTree, LiesAsTheFormatSays) {
  const std::string text = packed();
  std::uint64_t size = 0;
  std::memcpy(&size, text.data() + 8, sizeof size);

  EXPECT_EQ(text.substr(0, 8), "CRNPTREE");
  EXPECT_EQ(text.substr(16 + 4, 4), "CRNI");
  const std::size_t begin = (16 + size + 63) / 64 * 64;
  EXPECT_EQ(std::memcmp(text.data() + begin, kElements.data(), sizeof kElements), 0);
  EXPECT_EQ(std::memcmp(text.data() + begin + 64, kElements.data(), 4), 0);
  EXPECT_EQ(text.size(), begin + 64 + 4);
  const PackedTree tree = opened(text);
  EXPECT_EQ(tree.index().slice(tree.index().array(tree.index().entry(0)), 0).file, "self");
}

TEST(PackedTree, IsReadFromAnyAddress) {
  const std::string text = packed();
  for (std::size_t shift = 0; shift < 8; ++shift) {
    const std::string shifted = std::string(shift, 'x') + text;

    EXPECT_EQ(elements_of(opened(std::string_view(shifted).substr(shift)), "b").size(), 4u);
  }
}

TEST(PackedTree, ThatIsCutShortIsRefused) {
  const std::string text = packed();
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
    EXPECT_THAT([&] { static_cast<void>(opened(std::string_view(text).substr(0, bytes))); },
                Fails(Errc::malformed_metadata, HasSubstr("common.tree")))
        << bytes;
  }
}

TEST(PackedTree, OfAnotherKindIsRefused) {
  EXPECT_THAT([] { static_cast<void>(opened("CRNVALUE" + std::string(64, '\0'))); },
              Fails(Errc::malformed_metadata, HasSubstr("common.tree: it does not begin with CRNPTREE")));
}

TEST(PackedTree, WhoseArraysDoNotLieInItIsRefused) {
  TreePacker short_of_data(kPackedTree);
  short_of_data.add_array("a", DType::uint16, std::vector<std::uint64_t>{300},
                          std::as_bytes(std::span(kElements)));
  TreePacker in_slices(kPackedTree);
  in_slices.entries().add_array("a", DType::uint8, std::vector<std::uint64_t>{2});

  EXPECT_THAT([&] { static_cast<void>(opened(short_of_data.finish())); },
              Fails(Errc::malformed_metadata, HasSubstr("array 'a' does not lie in it")));
  EXPECT_THAT(
      [&] { static_cast<void>(opened(in_slices.finish())); },
      Fails(Errc::malformed_metadata, AnyOf(HasSubstr("does not lie in it"), HasSubstr("common.tree"))));
}

TEST(PackedTree, WhoseArraysShareBytesIsRefused) {
  TreePacker packer(kPackedTree);
  packer.add_array("a", DType::uint8, std::vector<std::uint64_t>{6}, std::as_bytes(std::span(kElements)));
  for (const char* name : {"b", "c"}) {
    packer.entries().add_array(name, DType::uint8, std::vector<std::uint64_t>{6});
    packer.entries().add_whole(0, 0);
  }
  TreePacker aliased(kPackedTree);
  aliased.add_array("a", DType::uint8, std::vector<std::uint64_t>{6}, std::as_bytes(std::span(kElements)));
  aliased.entries().add_alias("b", "a");

  EXPECT_THAT([&] { static_cast<void>(opened(packer.finish())); },
              Fails(Errc::malformed_metadata, HasSubstr("shares bytes with others")));
  EXPECT_THAT([&] { static_cast<void>(opened(aliased.finish())); },
              Fails(Errc::malformed_metadata, HasSubstr("array 'b' shares bytes with others")));
}

}  // namespace
}  // namespace cairn::formats
