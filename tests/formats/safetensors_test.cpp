// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/safetensors.hpp"

#include <cstdint>
#include <span>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "formats/fixtures.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsNull;
using ::testing::Pair;
using ::testing::Pointee;
using testing::read_text;

void expect_facts(const SafetensorsHeader& header, const std::string& bytes, const ExpectedFile& expected) {
  EXPECT_EQ(bytes.size(), expected.size);
  EXPECT_EQ(header.data_begin, 8 + expected.header_length);
  EXPECT_THAT(header.metadata, ElementsAreArray(expected.metadata.begin(), expected.metadata.end()));
  ASSERT_EQ(header.tensors.size(), expected.tensors.size());
  for (const SafetensorsTensor& tensor : header.tensors) {
    const auto facts = expected.tensors.find(tensor.name);
    ASSERT_NE(facts, expected.tensors.end()) << tensor.name;
    EXPECT_EQ(name(tensor.dtype), facts->second.dtype) << tensor.name;
    EXPECT_THAT(tensor.shape, ElementsAreArray(facts->second.shape)) << tensor.name;
    EXPECT_THAT(facts->second.data_offsets,
                ElementsAre(tensor.begin - header.data_begin, tensor.end - header.data_begin))
        << tensor.name;
    EXPECT_EQ(sha256(bytes.substr(tensor.begin, tensor.end - tensor.begin)), facts->second.sha256)
        << tensor.name;
  }
}

class SafetensorsReference : public ::testing::TestWithParam<const char*> {};

TEST_P(SafetensorsReference, FilesReadAsTheirWriterSaysTheyAre) {
  const auto folder = data_path(GetParam());
  const auto expected = read_expected_files(folder / "expected.json");

  for (const auto& [name, facts] : expected) {
    SCOPED_TRACE(name);
    const std::string bytes = read_text(folder / name);
    expect_facts(parse(bytes), bytes, facts);
  }

  EXPECT_FALSE(expected.empty());
}

INSTANTIATE_TEST_SUITE_P(Folders, SafetensorsReference,
                         ::testing::Values("safetensors", "safetensors/hf_sharded"),
                         [](const auto& test) { return test.index == 0 ? "Single" : "Sharded"; });

TEST(SafetensorsHeader, PassesOverTrailingBytesWhereTheyAreAllowed) {
  const std::string file = make_file(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 3);

  EXPECT_THAT([&] { static_cast<void>(parse_safetensors(as_bytes(file), file.size(), "f")); },
              Fails(Errc::malformed_metadata, HasSubstr("TreeLoadOptions::allow_trailing_bytes")));
  const SafetensorsHeader header =
      parse_safetensors(as_bytes(file), file.size(), "f", TrailingBytes::allowed);

  EXPECT_EQ(header.trailing_bytes, 2u);
  EXPECT_EQ(header.tensors.front().end, file.size() - 2);
}

TEST(SafetensorsHeader, RefusesTensorsBeyondTheEndWhereTrailingBytesAreAllowed) {
  const std::string file = make_file(R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 3);

  EXPECT_THAT(
      [&] { static_cast<void>(parse_safetensors(as_bytes(file), file.size(), "f", TrailingBytes::allowed)); },
      Fails(Errc::malformed_metadata, HasSubstr("tensor 'w': ends at 4")));
}

TEST(SafetensorsPrefixSize, IsTheHeaderWithItsLength) {
  const std::string file = make_file("{}      ", 0);

  EXPECT_EQ(safetensors_prefix_size(as_bytes(file).first(8), file.size(), "f"), 16u);
}

TEST(SafetensorsPrefixSize, MayBeAsLargeAsTheFormatAllows) {
  const std::uint64_t length = kMaxSafetensorsHeaderBytes;
  const std::uint64_t most = kSafetensorsLengthBytes + kMaxSafetensorsHeaderBytes;

  EXPECT_EQ(safetensors_prefix_size(std::as_bytes(std::span(&length, 1)), most, "f"), most);
}

TEST(SafetensorsParse, NeedsNoMoreThanThePrefix) {
  const std::string file = make_file(R"({"w":{"dtype":"U8","shape":[100],"data_offsets":[0,100]}})", 100);
  const std::uint64_t prefix = safetensors_prefix_size(as_bytes(file), file.size(), "f");

  const SafetensorsHeader header = parse_safetensors(as_bytes(file).first(prefix), file.size(), "f");

  EXPECT_EQ(header.tensors.front().end, file.size());
}

TEST(SafetensorsParse, RefusesLessThanThePrefixAsAMistakeOfTheCaller) {
  const std::string file = make_file("{}", 0);

  EXPECT_THAT([&] { static_cast<void>(parse_safetensors(as_bytes(file).first(9), file.size(), "f")); },
              Fails(Errc::invalid_argument));
}

TEST(SafetensorsParse, SortsTensorsByTheirBytes) {
  const SafetensorsHeader header = parse(make_file(
      R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})",
      3));

  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[1].name, "b");
}

TEST(SafetensorsParse, TakesEmptyTensorsAtEveryBoundary) {
  const SafetensorsHeader header =
      parse(make_file(R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[4,4]},)"
                      R"("w":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                      R"("y":{"dtype":"F64","shape":[3,0],"data_offsets":[0,0]}})",
                      4));

  EXPECT_EQ(header.tensors.size(), 3u);
}

TEST(SafetensorsParse, IgnoresKeysOfATensorThatItDoesNotKnow) {
  const SafetensorsHeader header = parse(make_file(
      R"({"w":{"note":{"a":[1.5,-0,null]},"dtype":"U8","shape":[1],"data_offsets":[0,1],"z":"é"}})", 1));

  EXPECT_EQ(header.tensors.front().name, "w");
}

TEST(SafetensorsParse, TakesAnyWhiteSpaceBetweenTokensAndAtTheEnd) {
  const SafetensorsHeader header = parse(make_file(
      "{ \"w\"\n:\t{\"dtype\" : \"U8\" , \"shape\" : [ 1 ] ,\r\"data_offsets\":[ 0 , 1 ] } } \n\t\r ", 1));

  EXPECT_EQ(header.tensors.size(), 1u);
}

TEST(SafetensorsParse, ReadsEscapedNamesAsTheirCharacters) {
  const SafetensorsHeader header = parse(
      make_file(R"({"\u00e9\ud83d\ude00\/\u0000":{"dtyp\u0065":"U8","shape":[1],"data_offsets":[0,1]}})", 1));

  EXPECT_EQ(header.tensors.front().name, std::string("é😀/\0", 8));
}

TEST(SafetensorsParse, TakesNullForNoMetadata) {
  EXPECT_THAT(parse(make_file(R"({"__metadata__":null})", 0)).metadata, IsEmpty());
}

TEST(SafetensorsHeader, FindsMetadataByKey) {
  const SafetensorsHeader header = parse(make_file(R"({"__metadata__":{"b":"2","a":"1"}})", 0));

  EXPECT_THAT(header.metadata, ElementsAre(Pair("a", "1"), Pair("b", "2")));
  EXPECT_THAT(header.find_metadata("b"), Pointee(std::string("2")));
  EXPECT_THAT(header.find_metadata("aa"), IsNull());
}

}  // namespace
}  // namespace cairn::formats
