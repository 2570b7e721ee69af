// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/dcp_metadata.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/array/format.hpp"

#include "array/internal/cover.hpp"
#include "formats/fixtures.hpp"
#include "formats/foreign/checkpoint_files.hpp"
#include "formats/internal/index.hpp"
#include "formats/internal/torch_archive.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"
#include "support/torch_files.hpp"

namespace cairn::formats {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A folder of fixtures, and where in its expected.json the tensors stand.
struct DcpFixture {
  const char* name;
  const char* folder;
  const char* json;
  const char* tensors;
};

class DcpFixtures : public ::testing::TestWithParam<DcpFixture> {};

TEST_P(DcpFixtures, GiveTheTensorsThatWereSaved) {
  const Files files = read_files(data_path(GetParam().folder));
  const nlohmann::json json = nlohmann::json::parse(testing::read_text(data_path(GetParam().json)));
  std::map<std::string, std::string> wanted;
  for (const auto& [name, tensor] : json.at(nlohmann::json::json_pointer(GetParam().tensors)).items()) {
    const auto extents = tensor.at("shape").get<std::vector<std::uint64_t>>();
    std::string path;
    append_key(path, name);
    wanted[path] =
        fmt::format("{} {} {}", cairn::name(torch_dtype(tensor.at("dtype").get<std::string>()).value()),
                    Shape(std::span<const std::uint64_t>(extents)), tensor.at("sha256").get<std::string>());
  }
  ASSERT_FALSE(wanted.empty());

  const ForeignCatalogue catalogue = read_dcp(files);

  std::map<std::string, std::string> found;
  for (const ForeignArray& array : catalogue.arrays) {
    std::vector<Box> boxes;
    for (const ForeignSlice& slice : array.slices) {
      boxes.push_back(slice.box);
    }
    EXPECT_NO_THROW(check_cover(array.path, Box::whole(array.shape), boxes));
    found[array.path] = fmt::format("{} {} {}", cairn::name(array.dtype), array.shape,
                                    sha256(elements_of(array, catalogue, files)));
  }
  EXPECT_EQ(found, wanted);
  EXPECT_THAT(catalogue.left_out, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Folders, DcpFixtures,
    ::testing::Values(
        DcpFixture{"Classic", "torch/dcp", "torch/expected.json", "/dcp/tensors"},
        DcpFixture{"Fsdp2", "torch_more/fsdp2", "torch_more/expected.json", "/dcp/fsdp2"},
        DcpFixture{"Plain", "torch_more/plain", "torch_more/expected.json", "/dcp/plain"},
        DcpFixture{"PerRank", "torch_more/per_rank", "torch_more/expected.json", "/dcp/per_rank"},
        DcpFixture{"Megatron", "megatron/tp2_pp2", "megatron/expected.json", "/sets/tp2_pp2/tensors"},
        DcpFixture{"FlattenedMegatron", "megatron/flat_tp2_dp3", "megatron/expected.json",
                   "/sets/flat_tp2_dp3/tensors"}),
    [](const auto& test) { return test.param.name; });

ForeignCatalogue describe_file(const std::string& path) {
  const std::string bytes = testing::read_text(data_path(path));
  return describe_dcp_metadata(as_bytes(bytes), path);
}

TEST(DcpMetadata, NamesObjectsAndWhereTheyLie) {
  const ForeignCatalogue catalogue = describe_file("torch_more/plain/.metadata");
  const Files files = read_files(data_path("torch_more/plain"));

  std::map<std::string, std::string> values;
  for (const ForeignObject& object : catalogue.objects) {
    const FileRange& range = object.range;
    const std::string bytes =
        files.at(catalogue.files[range.file]).substr(range.begin, range.end - range.begin);
    for (const auto& [path, line] : shown(read_archive(bytes), {{"f", bytes}})) {
      values[object.path + path] = line;
    }
  }
  EXPECT_EQ(values,
            (std::map<std::string, std::string>{
                {"flag", "true"}, {"text", "text é"}, {"nested.list.1", "int 3"}, {"nested.none", "null"}}));
}

TEST(DcpMetadata, ReadsTheCommonStateOfMegatron) {
  const ForeignCatalogue catalogue = describe_file("megatron/tp2_pp2/.metadata");
  const Files files = read_files(data_path("megatron/tp2_pp2"));
  const auto common =
      std::find_if(catalogue.objects.begin(), catalogue.objects.end(),
                   [](const ForeignObject& object) { return object.path == "common_state~1shard_0_1"; });
  ASSERT_NE(common, catalogue.objects.end());
  const FileRange& range = common->range;
  const std::string bytes =
      files.at(catalogue.files[range.file]).substr(range.begin, range.end - range.begin);
  const auto lines = shown(read_archive(bytes), {{"f", bytes}});

  EXPECT_EQ(lines.at(""), "list 1");
  const auto huge = std::count_if(lines.begin(), lines.end(), [](const auto& line) {
    return line.second == "left out: an integer of more than 64 bits";
  });
  EXPECT_EQ(huge, 1);
}

TEST(DcpMetadata, RefusesEncodedChunksByTheirCodec) {
  const Files files = read_files(data_path("torch_more/zstd"));

  EXPECT_THAT([&] { static_cast<void>(read_dcp(files)); },
              Fails(Errc::feature_missing, HasSubstr("'stream.zstd/1'")));
}

TEST(DcpMetadata, RefusesAPartThatIsOfAnotherTensor) {
  Files files = read_files(data_path("torch/dcp"));
  std::swap(files.at("__0_0.distcp"), files.at("__1_0.distcp"));

  EXPECT_THAT([&] { static_cast<void>(read_dcp(files)); }, Fails(Errc::malformed_metadata));
}

TEST(DcpMetadata, RefusesOtherPickles) {
  const auto describe = [](std::string_view text) {
    static_cast<void>(describe_dcp_metadata(as_bytes(text), "f"));
  };
  EXPECT_THAT([&] { describe("N."); },
              Fails(Errc::malformed_metadata, HasSubstr("does not describe a checkpoint")));
  EXPECT_THAT([&] { describe("cos\nsystem\n)R."); }, Fails(Errc::malformed_metadata));
  EXPECT_THAT([&] { describe("ca\nMetadata\n)R}b."); },
              Fails(Errc::malformed_metadata, HasSubstr("'storage_data' is missing")));
}

/// A `.metadata` in which one text stands in the place of another of the same length.
std::string altered(std::string text, std::string_view what, std::string_view by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos);
  EXPECT_EQ(what.size(), by.size());
  return text.replace(at, what.size(), by);
}

TEST(DcpMetadata, CountsTwoElementsOfFloat4InEachByte) {
  const testing::TempDir folder;
  testing::DcpWriter writer(folder.path());
  const testing::TorchTensor whole{"w", DType::uint8, {4, 8}};
  writer.describe("__0_0.distcp", whole, Box({0, 0}, {4, 6}), 0, 100);
  writer.describe("__1_0.distcp", whole, Box({0, 6}, {4, 2}), 0, 100);
  writer.finish();
  std::string text = testing::read_text(folder / ".metadata");
  const std::string stored("\x8c\x05uint8");
  ASSERT_NE(text.find(stored), std::string::npos);
  text.replace(text.find(stored), stored.size(),
               "\x8c\x10"
               "float4_e2m1fn_x2");

  const ForeignCatalogue catalogue = describe_dcp_metadata(as_bytes(text), "f");

  ASSERT_EQ(catalogue.arrays.size(), 1u);
  EXPECT_EQ(catalogue.arrays[0].dtype, DType::float4);
  EXPECT_EQ(catalogue.arrays[0].shape, Shape({4, 16}));
  ASSERT_EQ(catalogue.arrays[0].slices.size(), 2u);
  EXPECT_EQ(catalogue.arrays[0].slices[1].box, Box({0, 12}, {4, 4}));
  EXPECT_EQ(catalogue.arrays[0].slices[1].elements, 16u);
}

TEST(DcpMetadata, LeavesOutWhatIsNeitherATensorNorAnObject) {
  const std::string good = testing::read_text(data_path("torch/dcp/.metadata"));
  const ForeignCatalogue catalogue =
      describe_dcp_metadata(as_bytes(altered(good, "TensorStorageMetadata", "TensorStorageMetaData")), "f");

  EXPECT_TRUE(catalogue.arrays.empty());
  ASSERT_FALSE(catalogue.left_out.empty());
  EXPECT_THAT(catalogue.left_out[0].why, HasSubstr("neither a tensor nor an object"));
}

TEST(DcpMetadata, RefusesFilesOutsideItsFolder) {
  const std::string good = testing::read_text(data_path("torch/dcp/.metadata"));

  EXPECT_THAT(
      [&] {
        static_cast<void>(
            describe_dcp_metadata(as_bytes(altered(good, "__1_0.distcp", "../../passwd")), "f"));
      },
      Fails(Errc::malformed_metadata, HasSubstr("not a plain file name")));
}

TEST(DcpMetadataFiles, AreOneOrThoseOfAllRanks) {
  using Names = std::vector<std::string>;
  EXPECT_THAT(dcp_metadata_files(Names{"__0.metadata", ".metadata", "__0_0.distcp"}),
              ElementsAre(".metadata"));
  EXPECT_THAT(dcp_metadata_files(Names{"x", "__01.metadata", "__.metadata"}), IsEmpty());
  Names eleven;
  for (int rank = 10; rank >= 0; --rank) {
    eleven.push_back(fmt::format("__{}.metadata", rank));
  }
  EXPECT_EQ(dcp_metadata_files(eleven).at(10), "__10.metadata");
  EXPECT_THAT(
      [] {
        static_cast<void>(dcp_metadata_files(Names{"__0.metadata", "__2.metadata"}));
      },
      Fails(Errc::incomplete_shards, HasSubstr("'__1.metadata' is missing")));
}

TEST(JoinDcpMetadata, RefusesRanksThatDiffer) {
  ForeignCatalogue first = describe_file("torch_more/per_rank/__0.metadata");
  ForeignCatalogue second = describe_file("torch_more/per_rank/__1.metadata");
  second.arrays.at(0).dtype = DType::int8;

  EXPECT_THAT(
      [&] {
        static_cast<void>(join_dcp_metadata(std::vector<ForeignCatalogue>{first, second}));
      },
      Fails(Errc::malformed_metadata, HasSubstr("differs")));
}

}  // namespace
}  // namespace cairn::formats
