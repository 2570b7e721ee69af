// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/hugging_face.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "formats/fixtures.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::formats {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::read_text;
using ::testing::SizeIs;

HuggingFaceIndex parse_index(std::string_view text) {
  return parse_hugging_face_index(text, "index.json");
}

TEST(HuggingFaceIndex, ReadsWhatTheLibraryWrites) {
  const HuggingFaceIndex index =
      parse_index(read_text(data_path("safetensors/hf_sharded/model.safetensors.index.json")));

  EXPECT_EQ(index.total_size, 45832u);
  EXPECT_THAT(index.weight_map, SizeIs(14));
  EXPECT_EQ(index.weight_map.find("lm_head.steps")->second, "model-00003-of-00003.safetensors");
  EXPECT_THAT(index.files(),
              ElementsAre("model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                          "model-00003-of-00003.safetensors"));
}

TEST(HuggingFaceIndex, NeedsNoMetadataAndIgnoresWhatItDoesNotKnow) {
  const HuggingFaceIndex index = parse_index(R"({"x":[1,{"y":2.5}],"weight_map":{"w":"f"}})");

  EXPECT_EQ(index.total_size, std::nullopt);
  EXPECT_THAT(index.files(), ElementsAre("f"));
}

TEST(HuggingFaceIndex, MayBeginWithBlanks) {
  EXPECT_THAT(parse_index("\r\n {\"weight_map\":{\"w\":\"f\"}}").files(), ElementsAre("f"));
}

TEST(HuggingFaceIndex, IgnoresATotalSizeThatIsNoInteger) {
  EXPECT_EQ(parse_index(R"({"metadata":{"total_size":1.5e9,"a":null},"weight_map":{}})").total_size,
            std::nullopt);
}

struct BadIndex {
  const char* name;
  std::string text;
  const char* message;
};

class HuggingFaceIndexHostile : public ::testing::TestWithParam<BadIndex> {};

TEST_P(HuggingFaceIndexHostile, IsRefusedWithTheReason) {
  EXPECT_THAT([] { parse_index(GetParam().text); },
              Fails(Errc::malformed_metadata, AllOf(HasSubstr("index.json"), HasSubstr(GetParam().message))));
}

std::string naming(std::string_view file) {
  return fmt::format(R"({{"weight_map":{{"w":"{}"}}}})", file);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, HuggingFaceIndexHostile,
    ::testing::Values(
        BadIndex{"Empty", "", "expected '{'"}, BadIndex{"NoMap", "{}", "has no 'weight_map'"},
        BadIndex{"TwoMaps", R"({"weight_map":{},"weight_map":{}})", "'weight_map' is given twice"},
        BadIndex{"TwoMetadata", R"({"metadata":{},"metadata":{}})", "'metadata' is given twice"},
        BadIndex{"MapIsAList", R"({"weight_map":[]})", "expected '{'"},
        BadIndex{"FileIsANumber", R"({"weight_map":{"w":1}})", "expected '\"'"},
        BadIndex{"TensorTwice", R"({"weight_map":{"w":"f","w":"g"}})", "tensor 'w': is given twice"},
        BadIndex{"TextBehindTheEnd", naming("f") + "x", "something follows"},
        BadIndex{"Deep", R"({"x":)" + std::string(1'000'000, '['), "nested deeper than 127"},
        BadIndex{"FileIsEmpty", naming(""), "not a plain file name"},
        BadIndex{"FileIsTheFolder", naming("."), "not a plain file name"},
        BadIndex{"FileIsTheParent", naming(".."), "not a plain file name"},
        BadIndex{"FileIsBelow", naming("a/f"), "not a plain file name"},
        BadIndex{"FileIsAbove", naming("../f"), "not a plain file name"},
        BadIndex{"FileIsAbsolute", naming("/etc/passwd"), "not a plain file name"},
        BadIndex{"FileHasABackslash", naming(R"(a\\f)"), "not a plain file name"},
        BadIndex{"FileHasANul", naming(R"(a\u0000f)"), "tensor 'w'"},
        BadIndex{"FileIsTooLong", naming(std::string(256, 'f')), "not a plain file name"}),
    [](const auto& test) { return test.param.name; });

TEST(HuggingFaceIndex, SaysWhatLiesInItsPlace) {
  EXPECT_THAT(
      [] { parse_index("<!DOCTYPE html>"); },
      Fails(Errc::malformed_metadata, HasSubstr("index.json: the answer of a server lies in its place")));
}

TEST(HuggingFaceIndex, IsCalledByAnyModelAndVariant) {
  EXPECT_TRUE(is_hugging_face_index("model.safetensors.index.json"));
  EXPECT_TRUE(is_hugging_face_index("diffusion_pytorch_model.safetensors.index.json"));
  EXPECT_TRUE(is_hugging_face_index("model.safetensors.index.fp16.json"));
  EXPECT_TRUE(is_hugging_face_index("model.fp16.safetensors.index.json"));
  EXPECT_FALSE(is_hugging_face_index("model.safetensors"));
  EXPECT_FALSE(is_hugging_face_index("model.index.json"));
  EXPECT_FALSE(is_hugging_face_index("below/model.safetensors.index.json"));
  EXPECT_FALSE(is_hugging_face_index("pytorch_model.bin.index.json"));
}

/// What whole_model_of finds among files of these names.
std::string whole_among(const std::vector<std::string>& files) {
  std::vector<std::string> lists;
  for (const std::string& file : files) {
    if (is_hugging_face_index(file)) {
      lists.push_back(file);
    }
  }
  return whole_model_of(files, lists);
}

TEST(WholeModel, GoesBeforeListsAsTransformersHasIt) {
  EXPECT_EQ(whole_among({"model.safetensors", "model.safetensors.index.json"}), "model.safetensors");
  EXPECT_EQ(whole_among({"model.safetensors", "model.safetensors.index.fp16.json"}), "model.safetensors");
  EXPECT_EQ(whole_among({"model.safetensors", "model.fp16.safetensors.index.json"}), "model.safetensors");
  EXPECT_EQ(
      whole_among({"model.safetensors", "model.safetensors.index.fp16.json", "model.safetensors.index.json"}),
      "model.safetensors");
  EXPECT_EQ(whole_among({"x.safetensors", "x.safetensors.index.fp16.json"}), "x.safetensors");
}

TEST(WholeModel, IsNotReadWhereAListIsFollowed) {
  EXPECT_EQ(whole_among({"model.safetensors"}), "") << "there is no list";
  EXPECT_EQ(whole_among({"model-00001-of-00001.safetensors", "model.safetensors.index.json"}), "");
  EXPECT_EQ(whole_among({"x.safetensors", "x.safetensors.index.json"}), "") << "diffusers follows the list";
  EXPECT_EQ(whole_among({"model.safetensors", "model.safetensors.index.json", "y.safetensors.index.json"}),
            "")
      << "there are two models";
}

std::string missing_of(const std::vector<std::string>& files) {
  const auto shards = find_missing_shards(files);
  return shards ? fmt::format("{} of {}: {}", shards->missing, shards->total, fmt::join(shards->names, " "))
                : "";
}

TEST(MissingShards, AreKnownByTheNamesOfTheOthers) {
  EXPECT_EQ(missing_of({"m-00001-of-00002.safetensors"}), "1 of 2: m-00002-of-00002.safetensors");
  EXPECT_EQ(missing_of({"m-00001-of-00003.safetensors", "m-00003-of-00003.safetensors", "other.safetensors"}),
            "1 of 3: m-00002-of-00003.safetensors");
  EXPECT_EQ(missing_of({"m-2-of-999999999.safetensors"}),
            "999999998 of 999999999: m-1-of-999999999.safetensors m-3-of-999999999.safetensors "
            "m-4-of-999999999.safetensors m-5-of-999999999.safetensors");
  EXPECT_EQ(missing_of({"m-00001-of-00002.safetensors", "m.fp16-00002-of-00002.safetensors"}),
            "1 of 2: m-00002-of-00002.safetensors");
}

TEST(MissingShards, AreNoneWhereAllAreThere) {
  EXPECT_EQ(missing_of({"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"}), "");
  EXPECT_EQ(missing_of({"m-00000-of-00002.safetensors", "m-00001-of-00002.safetensors"}), "");
  EXPECT_EQ(missing_of({"a.safetensors", "-of-2.safetensors", "m-1-of-.safetensors", "1-of-2.safetensors"}),
            "");
  EXPECT_EQ(missing_of({"m-1-of-0.safetensors", "m-1-of-9999999999.safetensors"}), "");
}

TEST(MissingShards, OfRanksCountTogether) {
  EXPECT_EQ(
      missing_of({"shard-00001-m-00001-of-00002.safetensors", "shard-00002-m-00002-of-00002.safetensors"}),
      "");
  EXPECT_EQ(
      missing_of({"shard-00001-m-00001-of-00002.safetensors", "shard-00002-m-00001-of-00002.safetensors"}),
      "1 of 2: m-00002-of-00002.safetensors");
}

/// The folder's files, with headers, and their bytes.
struct Folder {
  std::vector<FolderFile> files;
  std::vector<std::string> bytes;
};

Folder read_folder(const std::filesystem::path& path) {
  Folder folder;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() == ".safetensors") {
      folder.bytes.push_back(read_text(entry.path()));
      folder.files.push_back({entry.path().filename(), parse(folder.bytes.back())});
    }
  }
  return folder;
}

/// The row-major bytes of the whole tensor, element by element.
std::string assemble(const ForeignArray& tensor, const Folder& folder) {
  const std::size_t item = bits(tensor.dtype) / 8;
  std::string whole(byte_count(tensor.dtype, tensor.shape).value(), '\0');
  for (const ForeignSlice& slice : tensor.slices) {
    const Shape& extents = slice.box.extents();
    const std::uint64_t count = element_count(extents).value();
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t rest = i;
      std::uint64_t stride = 1;
      std::uint64_t target = 0;
      for (std::size_t d = extents.size(); d-- > 0;) {
        target += (slice.box.begin(d) + rest % extents[d]) * stride;
        rest /= extents[d];
        stride *= tensor.shape[d];
      }
      std::memcpy(&whole[target * item], &folder.bytes[slice.range.file][slice.range.begin + i * item], item);
    }
  }
  return whole;
}

void expect_tensors(const std::vector<ForeignArray>& tensors, const Folder& folder,
                    const std::map<std::string, ExpectedTensor>& expected, std::size_t count) {
  EXPECT_THAT(tensors, SizeIs(count));
  for (const ForeignArray& tensor : tensors) {
    const ExpectedTensor& facts = expected.at(tensor.path);
    EXPECT_THAT(tensor.shape, ::testing::ElementsAreArray(facts.shape)) << tensor.path;
    EXPECT_EQ(sha256(assemble(tensor, folder)), facts.sha256) << tensor.path;
  }
}

TEST(GatherTensors, PutsShardedTensorsTogetherToTheBit) {
  const Folder folder = read_folder(data_path("dcp_hf/sharded"));
  const auto expected = read_expected_tensors(data_path("dcp_hf/expected.json"));

  expect_tensors(gather_tensors(folder.files), folder, expected, expected.size());
}

TEST(GatherTensors, PutsShardsOfSeveralFilesPerRankTogether) {
  const Folder folder = read_folder(data_path("dcp_hf/consolidated/sharded"));
  const auto expected = read_expected_tensors(data_path("dcp_hf/expected.json"));

  expect_tensors(gather_tensors(folder.files), folder, expected, expected.size() - 2);
}

TEST(GatherTensors, FollowsTheIndexOfAFolderOfWholeTensors) {
  const auto expected = read_expected_tensors(data_path("dcp_hf/expected.json"));
  for (const auto& [name, missing] : {std::pair("dcp_hf/whole", 0u), std::pair("dcp_hf/consolidated", 2u)}) {
    const Folder folder = read_folder(data_path(name));
    const HuggingFaceIndex index = parse_index(read_text(data_path(name) / kHuggingFaceIndexName));

    expect_tensors(gather_tensors(folder.files, &index), folder, expected, expected.size() - missing);
  }
}

/// A file called `name` with one U8 tensor 'w' of `extent` elements from `offset` on, as PyTorch writes it.
FolderFile shard(std::string name, std::uint64_t extent, std::uint64_t offset) {
  const std::string json =
      fmt::format(R"({{"__metadata__":{{"DCP_SHARDING_INFO":"{{\"w\": {{\"saved_offsets\": [{}]}}}}"}},)"
                  R"("w":{{"dtype":"U8","shape":[{}],"data_offsets":[0,{}]}}}})",
                  offset, extent, extent);
  return {std::move(name), parse(make_file(json, extent))};
}

FolderFile with_info(const std::string& info) {
  std::string escaped;
  for (const char c : info) {
    escaped += c == '"' ? std::string("\\\"") : std::string(1, c);
  }
  return {"f", parse(make_file(R"({"__metadata__":{"DCP_SHARDING_INFO":")" + escaped +
                                   R"("},"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                               1))};
}

TEST(GatherTensors, TakesTheLargestEndAsTheExtent) {
  const std::vector<FolderFile> files = {shard("b", 3, 2), shard("a", 2, 0)};

  const auto tensors = gather_tensors(files);

  ASSERT_THAT(tensors, SizeIs(1));
  EXPECT_EQ(tensors.front().shape, Shape({5}));
}

TEST(GatherTensors, DropsTheEmptySlicesOfRanksThatHadNoRows) {
  const std::vector<FolderFile> files = {shard("a", 2, 0), shard("b", 0, 2)};

  EXPECT_THAT(gather_tensors(files).front().slices, SizeIs(1));
}

TEST(GatherTensors, KeepsOneSliceOfAnEmptyTensor) {
  const std::vector<FolderFile> files = {shard("a", 0, 0), shard("b", 0, 0)};

  EXPECT_THAT(gather_tensors(files).front().slices, SizeIs(1));
}

TEST(GatherTensors, RefusesSlicesThatOverlap) {
  const std::vector<FolderFile> files = {shard("a", 3, 0), shard("b", 3, 2)};

  EXPECT_THAT([&] { static_cast<void>(gather_tensors(files)); },
              Fails(Errc::overlapping_shards, HasSubstr("'w'")));
}

TEST(GatherTensors, RefusesAMissingSlice) {
  const std::vector<FolderFile> files = {shard("a", 2, 0), shard("c", 2, 4)};

  EXPECT_THAT(
      [&] { static_cast<void>(gather_tensors(files)); },
      Fails(Errc::incomplete_shards,
            HasSubstr("'w': 4 of the 6 elements of [0:6] are there; [2:4] is not; next to it: [0:2] in 'a', "
                      "[4:6] in 'c'")));
}

TEST(GatherTensors, RefusesATensorOfTooManyElements) {
  const std::vector<FolderFile> files = {shard("a", 1, UINT64_MAX - 1)};

  EXPECT_THAT([&] { static_cast<void>(gather_tensors(files)); },
              Fails(Errc::malformed_metadata, HasSubstr("too many elements")));
}

FolderFile whole(std::string name, std::string_view dtype, std::string_view shape, std::size_t bytes) {
  return {std::move(name),
          parse(make_file(fmt::format(R"({{"w":{{"dtype":"{}","shape":{},"data_offsets":[0,{}]}}}})", dtype,
                                      shape, bytes),
                          bytes))};
}

TEST(GatherTensors, RefusesAWholeTensorInTwoFilesAndNamesBoth) {
  const std::vector<FolderFile> files = {whole("a", "U8", "[2]", 2), whole("b", "U8", "[2]", 2)};

  EXPECT_THAT(
      [&] { static_cast<void>(gather_tensors(files)); },
      Fails(Errc::overlapping_shards, AllOf(HasSubstr("'w'"), HasSubstr("in 'a'"), HasSubstr("in 'b'"))));
}

TEST(GatherTensors, RefusesAScalarInTwoFilesAndNamesBoth) {
  const std::vector<FolderFile> files = {whole("a", "U8", "[]", 1), whole("b", "U8", "[]", 1)};

  EXPECT_THAT(
      [&] { static_cast<void>(gather_tensors(files)); },
      Fails(Errc::overlapping_shards, AllOf(HasSubstr("'w'"), HasSubstr("in 'a'"), HasSubstr("in 'b'"))));
}

TEST(GatherTensors, RefusesSlicesOfDifferentDtypes) {
  const std::vector<FolderFile> files = {whole("a", "U8", "[2]", 2), whole("b", "I8", "[2]", 2)};

  EXPECT_THAT([&] { static_cast<void>(gather_tensors(files)); },
              Fails(Errc::malformed_metadata, AllOf(HasSubstr("b: tensor 'w'"), HasSubstr("in 'a'"))));
}

TEST(GatherTensors, RefusesSlicesOfDifferentRanks) {
  const std::vector<FolderFile> files = {whole("a", "U8", "[2]", 2), whole("b", "U8", "[2,1]", 2)};

  EXPECT_THAT([&] { static_cast<void>(gather_tensors(files)); },
              Fails(Errc::malformed_metadata, HasSubstr("2 dimensions here")));
}

TEST(GatherTensors, RefusesAnIndexThatNamesWhatIsNotThere) {
  const std::vector<FolderFile> files = {whole("a", "U8", "[2]", 2)};
  const HuggingFaceIndex index = parse_index(R"({"weight_map":{"w":"a","v":"a"}})");

  EXPECT_THAT([&] { static_cast<void>(gather_tensors(files, &index)); },
              Fails(Errc::malformed_metadata, HasSubstr("'v': is not in 'a'")));
}

TEST(GatherTensors, TakesATensorFromTheFileThatTheIndexNames) {
  const std::vector<FolderFile> files = {whole("a", "U8", "[2]", 2), whole("b", "I8", "[3]", 3)};
  const HuggingFaceIndex index = parse_index(R"({"weight_map":{"w":"b"}})");

  const auto tensors = gather_tensors(files, &index);

  ASSERT_THAT(tensors, SizeIs(1));
  EXPECT_EQ(tensors.front().dtype, DType::int8);
}

TEST(GatherTensors, RefusesAFurtherSliceThatTheIndexDoesNotName) {
  const std::vector<FolderFile> files = {with_info("{}")};
  const HuggingFaceIndex index = parse_index(R"({"weight_map":{}})");

  EXPECT_THAT([&] { static_cast<void>(gather_tensors(files, &index)); },
              Fails(Errc::malformed_metadata, HasSubstr("'w': is missing from DCP_SHARDING_INFO")));
}

/// "0,0,0" and so on.
std::string many(const std::string& element, int count) {
  std::string text = element;
  for (int i = 1; i < count; ++i) {
    text += "," + element;
  }
  return text;
}

struct BadInfo {
  const char* name;
  std::string info;
  const char* message;
};

class ShardingInfoHostile : public ::testing::TestWithParam<BadInfo> {};

TEST_P(ShardingInfoHostile, IsRefusedWithTheReason) {
  const std::vector<FolderFile> files = {with_info(GetParam().info)};

  EXPECT_THAT([&] { static_cast<void>(gather_tensors(files)); },
              Fails(Errc::malformed_metadata, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, ShardingInfoHostile,
    ::testing::Values(
        BadInfo{"Empty", "", "f: DCP_SHARDING_INFO: byte 0"},
        BadInfo{"LeavesATensorOut", "{}", "'w': is missing from DCP_SHARDING_INFO"},
        BadInfo{"HasNoOffsets", R"({"w":{}})", "has no 'saved_offsets'"},
        BadInfo{"HasOffsetsTwice", R"({"w":{"saved_offsets":[0],"saved_offsets":[0]}})", "is given twice"},
        BadInfo{"HasATensorTwice", R"({"w":{"saved_offsets":[0]},"w":{"saved_offsets":[0]}})",
                "is given twice"},
        BadInfo{"HasTooManyOffsets", R"({"w":{"saved_offsets":[0,0]}})", "saved offsets [0, 0]"},
        BadInfo{"HasMoreOffsetsThanAnyTensor", R"({"w":{"saved_offsets":[)" + many("0", 65) + "]}}",
                "more than 64 saved offsets"},
        BadInfo{"HasANegativeOffset", R"({"w":{"saved_offsets":[-1]}})", "expected an unsigned integer"},
        BadInfo{"HasAnOffsetThatWraps", R"({"w":{"saved_offsets":[18446744073709551615]}})",
                "exceed 64 bits"},
        BadInfo{"IsFollowedByText", R"({"w":{"saved_offsets":[0]}}x)", "something follows"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace cairn::formats
