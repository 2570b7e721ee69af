// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/torch_archive.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/array/format.hpp"

#include "formats/fixtures.hpp"
#include "formats/foreign/checkpoint_files.hpp"
#include "formats/internal/index.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::formats {
namespace {

using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using testing::read_text;
using Lines = std::map<std::string, std::string>;

nlohmann::json expected_of(std::string_view folder) {
  return nlohmann::json::parse(read_text(data_path(folder) / "expected.json"));
}

/// Returns what `shown` says of an array that an expected.json describes.
std::string line_of(const nlohmann::json& tensor) {
  const auto dtype = torch_dtype(tensor.at("dtype").get<std::string>());
  auto extents = tensor.at("shape").get<std::vector<std::uint64_t>>();
  if (dtype == DType::float4) {
    extents.back() *= 2;
  }
  return fmt::format("{} {} {}", name(dtype.value()), Shape(std::span<const std::uint64_t>(extents)),
                     tensor.at("sha256").get<std::string>());
}

Lines read_lines(const std::filesystem::path& path) {
  const Files files{{"f", read_text(path)}};
  return shown(read_archive(files.at("f")), files);
}

std::vector<std::pair<const std::string, std::string>> pairs(const Lines& lines) {
  return {lines.begin(), lines.end()};
}

class TorchFixture : public ::testing::TestWithParam<const char*> {};

TEST_P(TorchFixture, GivesTheTensorsThatTorchSaved) {
  nlohmann::json expected = expected_of("torch_more").at("pt");
  nlohmann::json tensors = expected.at(GetParam());
  if (tensors.is_string()) {
    tensors = expected.at("training.pt");
  }
  Lines wanted;
  if (tensors.contains("sha256")) {
    wanted[""] = line_of(tensors);
  } else {
    for (const auto& [name, tensor] : tensors.items()) {
      wanted[name] = line_of(tensor);
    }
  }
  ASSERT_FALSE(wanted.empty());

  EXPECT_THAT(pairs(read_lines(data_path("torch_more") / GetParam())), IsSupersetOf(pairs(wanted)));
}

INSTANTIATE_TEST_SUITE_P(Files, TorchFixture,
                         ::testing::Values("dtypes.pt", "views.pt", "training.pt", "protocol5.pt",
                                           "root_tensor.pt", "root_list.pt", "big_endian.pt", "no_crc.pt"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return c == '.' || c == '_'; }, 'X');
                           return name;
                         });

TEST(TorchArchive, GivesTheStateDictThatTorchSaved) {
  const nlohmann::json expected = expected_of("torch").at("state_dict.pt");
  Lines wanted{{"step", "int 17"},
               {"lr", "real 0.125"},
               {"tags", "list 2"},
               {"tags/0", "text a"},
               {"tags/1", "text b"}};
  for (const auto& [name, tensor] : expected.at("model").items()) {
    wanted["model/" + name] = line_of(tensor);
  }

  EXPECT_EQ(read_lines(data_path("torch/state_dict.pt")), wanted);
}

TEST(TorchArchive, FindsMembersWhereTheyLie) {
  const std::string bytes = read_text(data_path("torch/state_dict.pt"));
  const TorchArchive archive = open_torch_archive(reader_of(bytes), bytes.size(), "f");

  const nlohmann::json expected = expected_of("torch").at("state_dict.pt").at("members");
  for (const nlohmann::json& member : expected) {
    const ZipMember* const found = archive.directory.find(member.at("name").get<std::string>());
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->begin, member.at("data_offset").get<std::uint64_t>());
    EXPECT_EQ(found->size, member.at("size").get<std::uint64_t>());
  }
  EXPECT_TRUE(archive.find("data.pkl")->has_sum());
}

TEST(TorchArchive, GivesPlainDataOfEveryKind) {
  const Lines lines = read_lines(data_path("torch_more/objects.pt"));

  const Lines wanted{{"integers", "list 8"},
                     {"integers/2", "int 255"},
                     {"integers/5", "int 9223372036854775807"},
                     {"integers/6", "int -9223372036854775808"},
                     {"integers/7", "int 18446744073709551615"},
                     {"floats/0", "real 0.5"},
                     {"floats/1", "real -0"},
                     {"floats/2", "real inf"},
                     {"text/0", "text "},
                     {"text/3", "text 🙂"},
                     {"text/4", "text a/b"},
                     {"nothing", "null"},
                     {"yes", "true"},
                     {"no", "false"},
                     {"bytes", std::string("bytes \0\xff"
                                           "ab",
                                           10)},
                     {"more", "bytes xyz"},
                     {"tuple", "list 2"},
                     {"tuple/1/1", "real 3"},
                     {"empty/map", "map"},
                     {"empty/list", "list 0"},
                     {"empty/tuple", "list 0"},
                     {"set", "list 1"},
                     {"set/0", "int 7"},
                     {"frozen/0", "int 8"},
                     {"1", "text true as key"},
                     {"ordered/b", "int 1"},
                     {"counted/a", "int 2"},
                     {"defaults/k/0", "int 1"},
                     {"simple/x", "int 1"},
                     {"simple/y/0", "int 2"},
                     {"size/1", "int 3"},
                     {"dtype", "text torch.bfloat16"},
                     {"device", "text cuda:1"},
                     {"file", "bytes inside"},
                     {"path", "text /a/b"},
                     {"numpy/scalar", "real 1.5"},
                     {"numpy/array", "I16 [2, 3] " + sha256(std::string("\0\0\1\0\2\0\3\0\4\0\5\0", 12))},
                     {"numpy/big", "I32 [2] " + sha256(std::string("\1\0\0\0\2\0\0\0", 8))},
                     {"deep/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0", "text bottom"}};
  EXPECT_THAT(pairs(lines), IsSupersetOf(pairs(wanted)));
  EXPECT_EQ(lines.at("numpy/fortran").substr(0, 10), "F64 [2, 3]");
  for (const auto& [path, line] : lines) {
    EXPECT_FALSE(line.starts_with("left out")) << path << ": " << line;
  }
}

/// Returns the elements of the conjugate of two ones.
std::string ones_and_minus_zeros() {
  const float elements[] = {1.0F, -0.0F, 1.0F, -0.0F};
  return {reinterpret_cast<const char*>(elements), sizeof elements};
}

TEST(TorchArchive, LeavesOutWhatHasNoPlaceAndSaysWhy) {
  Lines left_out = read_lines(data_path("torch_more/odd.pt"));

  EXPECT_EQ(left_out.at("fine").substr(0, 7), "I64 [3]");
  EXPECT_EQ(left_out.at("complex128").substr(0, 8), "C128 [2]");
  left_out.erase("fine");
  EXPECT_EQ(left_out.at("conjugated"), "C64 [2] " + sha256(ones_and_minus_zeros()));
  left_out.erase("complex128");
  left_out.erase("conjugated");
  EXPECT_EQ(left_out, (Lines{{"sparse", "left out: a sparse tensor"},
                             {"quantised", "left out: a quantised tensor"},
                             {"nested", "left out: a nested tensor"},
                             {"huge", "left out: an integer of more than 64 bits"},
                             {"code", "left out: the class or function 'types.SimpleNamespace'"},
                             {"complex", "left out: a complex number"},
                             {"meta", "left out: a tensor of the device 'meta', which has no elements"},
                             {"object", "left out: an object that a call of 'collections.deque' would make"},
                             {"ambiguous", "left out: a map of which two keys become '1'"}}));
}

/// A pickle of the test's own, without storages.
Lines lines_of(const std::string& pickle, const std::vector<std::string>& storages = {}) {
  const Files files{{"f", make_torch_archive(pickle + ".", storages)}};
  return shown(read_archive(files.at("f")), files);
}

std::string text(std::string_view value) {
  return pickled(value);
}

const std::string kOrderedDict = "ccollections\nOrderedDict\n";

TEST(TorchArchive, ReadsMapsThatAreMadeOfMaps) {
  const std::string pairs = "](" + text("a") + "K\1\x86" + text("b") + "K\2\x86" + "e";
  const std::string inner = kOrderedDict + pairs + "\x85R" + text("c") + "K\3s";
  const std::string outer = kOrderedDict + inner + "\x85R" + text("b") + "K\4s";
  const Lines wanted{{"a", "int 1"}, {"b", "int 4"}, {"c", "int 3"}};

  EXPECT_EQ(lines_of(outer), wanted);
  EXPECT_EQ(lines_of("ccollections\ndefaultdict\nc__builtin__\nlist\n" + outer + "\x86R"), wanted);
  EXPECT_THAT(lines_of(kOrderedDict + "cmy\nMap\n)R\x85R").at(""),
              HasSubstr("'collections.OrderedDict' would make"));
}

TEST(TorchArchive, TellsAttributesOfMapsThatAreNotKnown) {
  const std::string state = "}(" + text("_metadata") + "}" + text("hook") + "K\1u";
  const Lines wanted{{"a", "int 1"},
                     {".hook", "left out: the attribute 'hook' of a 'collections.OrderedDict'"}};

  EXPECT_EQ(lines_of(kOrderedDict + ")R" + text("a") + "K\1s" + state + "b"), wanted);
  EXPECT_EQ(lines_of(kOrderedDict + ")R" + text("a") + "K\1s}" + text("_metadata") + "}sb"),
            (Lines{{"a", "int 1"}}));
  EXPECT_EQ(lines_of("ccollections\nCounter\n}" + text("a") + "K\1s\x85R}" + text("x") + "Nsb").at(".x"),
            "left out: the attribute 'x' of a 'collections.Counter'");
}

TEST(TorchArchive, OffersTheTensorsOfAWholeModule) {
  TensorPickle tensor;
  tensor.count = pickled(1);
  tensor.offset = pickled(0);
  tensor.shape = pickled_tuple(pickled(1));
  tensor.strides = pickled_tuple(pickled(1));
  const auto module = [](const std::string& parameters, const std::string& modules) {
    return "cmy\nNet\n)\x81}(" + text("training") + "\x88" + text("hidden") + "K\7" + text("_parameters") +
           parameters + text("_buffers") + "}" + text("_modules") + modules + "ub";
  };
  const std::string layer = module("}" + text("w") + tensor.text() + "s", "}");
  const Lines lines =
      lines_of("}" + text("net") + module("}", "}" + text("0") + layer + "s") + "s", {"abcd"});

  EXPECT_EQ(lines.at("net"),
            "left out: this is a whole module: save model.state_dict(); an object of the class 'my.Net'");
  EXPECT_EQ(lines.at("net/_modules/0/_parameters/w"), "F32 [1] " + sha256("abcd"));
  EXPECT_FALSE(lines.contains("net/_modules/0"));
  EXPECT_FALSE(lines.contains("net/hidden"));
}

TEST(TorchArchive, ReadsScalarsOfNumpyAndKeysOfManyBits) {
  const auto scalar = [](std::string_view code, const std::string& bytes) {
    return "cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\n(" + text(code) + "\x89\x88tR(K\3" + text("<") +
           "NNNNNtbC" + static_cast<char>(bytes.size()) + bytes + "\x86R";
  };
  EXPECT_EQ(lines_of(scalar("f2", std::string("\0\x3e", 2))).at(""), "real 1.5");
  EXPECT_EQ(lines_of(scalar("f4", std::string("\0\0\xc0\x3f", 4))).at(""), "real 1.5");
  EXPECT_EQ(lines_of(scalar("i2", std::string("\xfe\xff", 2))).at(""), "int -2");
  EXPECT_EQ(lines_of(scalar("c8", "abcdefgh")).at(""), "C64 [] " + sha256("abcdefgh"));

  EXPECT_EQ(lines_of("cargparse\nNamespace\n)\x81").at(""), "map");
  const std::string huge("\x8a\x0b\0\0\0\0\0\0\0\0\0\0\1", 13);
  EXPECT_EQ(lines_of("}(" + pickled(~std::uint64_t{0}) + "K\1" + huge + "K\2u"),
            (Lines{{"18446744073709551615", "int 1"}, {"1208925819614629174706176", "int 2"}}));
}

TEST(TorchArchive, SaysWhatOtherFilesAre) {
  const std::map<std::string, const char*> reasons{{"legacy.pt", "before version 1.6"},
                                                   {"deflated.pt", "it is compressed (method 8)"},
                                                   {"no_pickle.pt", "no 'data.pkl'"},
                                                   {"no_storage.pt", "'data/1' is missing"},
                                                   {"member_twice.pt", "two members have this name"},
                                                   {"script.pt", "a TorchScript program"}};
  for (const auto& [file, why] : reasons) {
    const std::string name = file;
    EXPECT_THAT([&] { read_lines(data_path("torch_more") / name); },
                Fails(Errc::malformed_metadata, HasSubstr(why)));
  }
  EXPECT_EQ(expected_of("torch_more").at("refused").size(), reasons.size());
}

TEST(TorchArchive, SharesFormsAndKnowsTheSumsOfWholeStorages) {
  const std::string bytes = read_text(data_path("torch_more/views.pt"));
  const ForeignCatalogue catalogue = read_archive(bytes);

  for (const ForeignArray& array : catalogue.arrays) {
    const bool is_whole = array.path == "base" || array.path == "transposed" || array.path == "spread";
    if (is_whole) {
      EXPECT_TRUE(array.slices.at(0).crc32) << array.path;
    } else if (array.path == "rows") {
      EXPECT_FALSE(array.slices.at(0).crc32);
      EXPECT_EQ(array.slices.at(0).form, 0u);
    }
  }
}

TEST(TorchArchive, KnowsNoSumsOfMembersThatHaveNone) {
  if (!can_compute_crc32()) {
    GTEST_SKIP() << "this build computes no CRC-32";
  }
  TensorPickle tensor;
  tensor.count = pickled(1);
  tensor.offset = pickled(0);
  tensor.shape = pickled_tuple("");
  tensor.strides = pickled_tuple("");
  TensorPickle other = tensor;
  other.key = "1";
  std::vector<ArchiveMember> members{
      {"a/data.pkl", "(" + tensor.text() + other.text() + "t."}, {"a/data/0", "skip"}, {"a/data/1", "kept"}};
  members[1].has_sum = false;

  const ForeignCatalogue catalogue = read_archive(make_archive(members));

  EXPECT_FALSE(catalogue.arrays.at(0).slices.at(0).crc32);
  EXPECT_EQ(catalogue.arrays.at(1).slices.at(0).crc32, update_crc32(0, as_bytes("kept")));
}

TEST(TorchArchive, ComparesTheSumOfThePickle) {
  if (!can_compute_crc32()) {
    GTEST_SKIP() << "this build computes no CRC-32";
  }
  std::string bytes = read_text(data_path("torch/state_dict.pt"));
  bytes[70] = static_cast<char>(bytes[70] ^ 1);

  EXPECT_THAT([&] { static_cast<void>(read_archive(bytes)); },
              Fails(Errc::checksum_mismatch, HasSubstr("state_dict/data.pkl")));
}

TEST(UpdateCrc32, ContinuesOrSaysWhatIsMissing) {
  if (!can_compute_crc32()) {
    EXPECT_THAT([] { static_cast<void>(update_crc32(0, {})); },
                Fails(Errc::feature_missing, HasSubstr("zlib1g-dev")));
    return;
  }
  EXPECT_EQ(update_crc32(0, as_bytes("123456789")), 0xcbf43926u);
  EXPECT_EQ(update_crc32(update_crc32(update_crc32(0, as_bytes("1234")), {}), as_bytes("56789")),
            0xcbf43926u);
}

TEST(TorchArchive, ReadsTheCommonStateOfMegatron) {
  EXPECT_FALSE(read_lines(data_path("megatron/flat_tp2_dp3/common.pt")).empty());
}

}  // namespace
}  // namespace cairn::formats
