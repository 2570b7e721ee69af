// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/checkpoints.hpp"
#include "cli/run_cli.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using testing::CliResult;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_cli;
using testing::TempDir;

const fs::path kFilesToShow = testing::test_data() / "safetensors";

/// [0, count) in a shape.
Array counted(Shape shape) {
  Array array(std::move(shape), DType::int64);
  const auto elements = array.data<std::int64_t>();
  std::iota(elements.begin(), elements.end(), 0);
  return array;
}

Array of_bytes(Shape shape, DType dtype, const std::vector<unsigned>& bytes) {
  Array array(std::move(shape), dtype);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    array.mutable_view().data()[i] = static_cast<std::byte>(bytes[i]);
  }
  return array;
}

class CliShow : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new TempDir;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> odd{0.1F, -1.5F, nan, -INFINITY};
    std::vector<std::complex<float>> complex{{1, 2}, {0, -1.5F}};
    std::vector<std::complex<double>> wide{{0.1, -1e300}};
    std::vector<std::uint64_t> large{std::numeric_limits<std::uint64_t>::max()};
    Array truth = of_bytes({2}, DType::boolean, {0, 1});
    Array bfloat = of_bytes({2}, DType::bfloat16, {0xcd, 0x3d, 0x80, 0x7f});   // 0.1, inf
    Array float8 = of_bytes({3}, DType::float8_e4m3, {0x38, 0xb8, 0x7f});      // 1, -1, nan
    Array float4 = of_bytes({2, 4}, DType::float4, {0x21, 0x43, 0x65, 0xf7});  // 0.5 1 1.5 2 / 3 4 6 -6
    const Tree tree = {{"small", counted({3, 4})},
                       {"cube", counted({2, 2, 3})},
                       {"big", counted({100, 200})},
                       {"long", counted({2000})},
                       {"none", Array({0, 3}, DType::float32)},
                       {"scalar", counted({})},
                       {"odd", Array(odd)},
                       {"complex", Array(complex)},
                       {"wide", Array(wide)},
                       {"large", Array(large)},
                       {"truth", truth},
                       {"bfloat", bfloat},
                       {"float8", float8},
                       {"float4", float4},
                       {"w[0]", counted({2})},
                       {"note", "a\x1b[31mb"},
                       {"step", 100}};
    save_checkpointables(path(), {{"model", tree},
                                  {"other", Tree{{"small", counted({1})}}},
                                  {"alone", counted({2})},
                                  {"config", json{{"width", 512}, {"a", {1, 2}}}}});
  }

  static void TearDownTestSuite() {
    delete directory_;
    directory_ = nullptr;
  }

  static fs::path path() { return *directory_ / "7"; }

  /// What is printed below the title.
  static std::string values(const std::string& name) {
    const CliResult result = run_cli({"show", path(), name});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out.substr(result.out.find('\n') + 1);
  }

  static std::string refusal(const std::string& name) {
    const CliResult result = run_cli({"show", path(), name});
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.out, "");
    return result.err;
  }

 private:
  static TempDir* directory_;
};

TempDir* CliShow::directory_ = nullptr;

TEST_F(CliShow, PrintsAnArrayInColumnsBelowItsTypeAndShape) {
  EXPECT_EQ(run_cli({"show", path(), "model/small"}).out,
            "model/small  int64  [3, 4]\n"
            "[[ 0,  1,  2,  3],\n"
            " [ 4,  5,  6,  7],\n"
            " [ 8,  9, 10, 11]]\n");
}

TEST_F(CliShow, SeparatesMatrices) {
  EXPECT_EQ(values("cube"), "[[[ 0,  1,  2],\n  [ 3,  4,  5]],\n\n [[ 6,  7,  8],\n  [ 9, 10, 11]]]\n");
}

TEST_F(CliShow, TakesIndicesAndRangesAsNumpyDoes) {
  EXPECT_EQ(values("model/small[1:, :2]"), "[[4, 5],\n [8, 9]]\n");
  EXPECT_EQ(values("model/small[-1]"), "[ 8,  9, 10, 11]\n");
  EXPECT_EQ(values("model/small[-1, -2]"), "10\n");
  EXPECT_EQ(values("model/small[..., 0]"), "[0, 4, 8]\n");
  EXPECT_EQ(values("model/small[:-2:1, 1:99]"), "[[1, 2, 3]]\n");
  EXPECT_EQ(values("model/small[2:1]"), "[]\n");
  EXPECT_EQ(values("cube[1, :, -1]"), "[ 8, 11]\n");
}

TEST_F(CliShow, SaysWhichPartItIs) {
  EXPECT_THAT(run_cli({"show", path(), "big[5:7, -1]"}).out,
              HasSubstr("int64  [100, 200]  [5:7, 199]  [2]\n"));
}

TEST_F(CliShow, ShowsTheCornersOfALargeArray) {
  EXPECT_EQ(values("long"), "[   0,    1,    2, ..., 1997, 1998, 1999]\n");
  EXPECT_THAT(values("big"), AllOf(HasSubstr("[[    0,     1,     2, ...,   197,   198,   199],\n"),
                                   HasSubstr(" [  400,   401,   402, ...,   597,   598,   599],\n ...,\n"),
                                   EndsWith(" [19800, 19801, 19802, ..., 19997, 19998, 19999]]\n")));
}

TEST_F(CliShow, ShowsAllWithinTheLimit) {
  const CliResult result = run_cli({"show", path(), "long", "--limit", "2000"});

  EXPECT_THAT(result.out, AllOf(HasSubstr(" 777,"), Not(HasSubstr("..."))));
}

TEST_F(CliShow, KnowsArraysWithoutElementsAndWithoutDimensions) {
  EXPECT_EQ(values("none"), "[]\n");
  EXPECT_EQ(values("scalar"), "0\n");
  EXPECT_EQ(values("scalar[]"), "0\n");
}

TEST_F(CliShow, KnowsEveryKindOfElement) {
  EXPECT_EQ(values("odd"), "[ 0.1, -1.5,  nan, -inf]\n");
  EXPECT_EQ(values("complex"), "[  1+2j, 0-1.5j]\n");
  EXPECT_EQ(values("wide"), "[0.1-1e+300j]\n");
  EXPECT_EQ(values("large"), "[18446744073709551615]\n");
  EXPECT_EQ(values("truth"), "[false,  true]\n");
  EXPECT_EQ(values("bfloat"), "[0.1, inf]\n");
  EXPECT_EQ(values("float8"), "[  1,  -1, nan]\n");
}

TEST_F(CliShow, CutsElementsThatShareBytes) {
  EXPECT_EQ(values("float4"), "[[0.5,   1, 1.5,   2],\n [  3,   4,   6,  -6]]\n");
  EXPECT_EQ(values("float4[1, 1:]"), "[ 4,  6, -6]\n");
  EXPECT_EQ(values("float4[0, 2]"), "1.5\n");
}

TEST_F(CliShow, ShowsValuesAndEscapesWhatDrivesATerminal) {
  EXPECT_EQ(values("step"), "100\n");
  EXPECT_EQ(values("note"), "\"a\\u001b[31mb\"\n");
}

TEST_F(CliShow, ShowsAJsonDocument) {
  EXPECT_EQ(values("config"), "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"width\": 512\n}\n");
  EXPECT_THAT(run_cli({"show", path(), "config", "--limit", "2"}).out, EndsWith("... (5 lines more)\n"));
}

TEST_F(CliShow, FindsACheckpointableThatIsAnArray) {
  EXPECT_EQ(values("alone[1]"), "1\n");
}

TEST_F(CliShow, PrefersANameWithBracketsToASubscript) {
  EXPECT_EQ(values("w[0]"), "[0, 1]\n");
  EXPECT_EQ(values("w[0][1]"), "1\n");
}

TEST_F(CliShow, ReadsFilesOfOtherPrograms) {
  const CliResult result = run_cli({"show", kFilesToShow / "tiny.safetensors", "x[:2]"});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("state/x  float32  [3]  [0:2]  [2]\n"));
}

TEST_F(CliShow, RefusesWhatItCannotSelectAndNamesIt) {
  EXPECT_THAT(refusal("model/small[::2]"), AllOf(HasSubstr("'::2'"), HasSubstr("step")));
  EXPECT_THAT(refusal("model/small[3]"), HasSubstr("index 3 is outside dimension 0, whose extent is 3"));
  EXPECT_THAT(refusal("model/small[-4]"), HasSubstr("index -4"));
  EXPECT_THAT(refusal("model/small[0,0,0]"), HasSubstr("3 indices for 2 dimensions"));
  EXPECT_THAT(refusal("model/small[x]"), HasSubstr("'x'"));
  EXPECT_THAT(refusal("model/small[0,]"), HasSubstr("''"));
  EXPECT_THAT(refusal("model/small[1:2:3:4]"), HasSubstr("'1:2:3:4'"));
  EXPECT_THAT(refusal("model/small[..., ...]"), HasSubstr("once"));
  EXPECT_THAT(refusal("model/small[99999999999999999999]"), HasSubstr("64 bits"));
  EXPECT_THAT(refusal("step[0]"), HasSubstr("'model/step' is not an array"));
}

TEST_F(CliShow, RefusesNamesThatSayNothingOrTooMuch) {
  EXPECT_THAT(refusal("nowhere[0]"), HasSubstr("'nowhere'"));
  EXPECT_THAT(refusal("model/small[0:"), HasSubstr("'model/small[0:', and its '[' is not closed"));
  EXPECT_THAT(refusal("small"), HasSubstr("'small' is ambiguous: 'model/small' or 'other/small'"));
  EXPECT_EQ(run_cli({"show", path(), "step", "--limit", "0"}).status, 2);
}

TEST_F(CliShow, SaysWhatLiesBelowASubtree) {
  EXPECT_THAT(
      refusal("model"),
      HasSubstr("'model' is a subtree, not an array or a value; below it: 'model/bfloat', 'model/big', "
                "'model/complex', 'model/cube', 'model/float4' and 12 more"));

  const TempDir directory;
  const Tree params = {{"params", {{"w", counted({2})}, {"step", 1}}}};
  save_checkpointables(directory / "8", {{"model", params}, {"ema", params}});
  EXPECT_THAT(run_cli({"show", directory / "8", "model/params"}).err,
              HasSubstr("below it: 'model/params/step', 'model/params/w'"));
  EXPECT_THAT(run_cli({"show", directory / "8", "params[0]"}).err,
              HasSubstr("'params' is a subtree, not an array or a value; below it: 'ema/params/step', "
                        "'ema/params/w', 'model/params/step', 'model/params/w'"));
}

TEST_F(CliShow, FindsArraysOfADataFileByTheirNamesInTheCheckpoint) {
  const TempDir directory;
  testing::save_example(directory / "8");
  for (const auto& entry : fs::directory_iterator(directory / "8/model")) {
    if (entry.path().extension() == ".safetensors") {
      EXPECT_THAT(run_cli({"show", entry.path(), "params/b"}).out,
                  HasSubstr("state/params/b  float32  [3]\n"));
      EXPECT_THAT(run_cli({"show", entry.path(), "params"}).err, HasSubstr("'state/params/b'"));
    }
  }
}

TEST_F(CliShow, ReadsOnlyWhatItShows) {
  const TempDir directory;
  const fs::path other = directory / "8";
  // 64 MiB, of which the last byte is damaged; hashes are of blocks, so the first rows are sound.
  save_checkpointables(other, {{"w", Array::zeros({1 << 14, 1 << 10}, DType::float32)}});
  for (const auto& entry : fs::directory_iterator(other / "w")) {
    if (entry.path().extension() == ".safetensors") {
      std::string text = testing::read_text(entry.path());
      text.back() = static_cast<char>(text.back() ^ 1);
      testing::write_text(entry.path(), text);
    }
  }

  EXPECT_EQ(run_cli({"show", other, "w[0:2, :3]"}).status, 0);
  EXPECT_THAT(run_cli({"show", other, "w[-1, -1]"}).err, HasSubstr("checksum mismatch"));
}

TEST_F(CliShow, AnswersInJson) {
  const auto ask = [](const std::string& name) {
    const CliResult result = run_cli({"show", path(), name, "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out);
  };

  EXPECT_EQ(
      ask("model/small[1:, :2]"),
      json::parse(R"({"name": "model/small", "dtype": "int64", "shape": [3, 4], "selected": "[1:3, 0:2]",
                            "selected_shape": [2, 2], "values": [[4, 5], [8, 9]]})"));
  EXPECT_EQ(ask("cube")["values"], json::parse("[[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]"));
  EXPECT_EQ(ask("odd[1:]")["values"], json::parse(R"([-1.5, "nan", "-inf"])"));
  EXPECT_EQ(ask("complex")["values"], json::parse("[[1, 2], [0, -1.5]]"));
  EXPECT_EQ(ask("wide")["dtype"], "complex128");
  EXPECT_EQ(ask("wide")["values"], json::parse("[[0.1, -1e300]]"));
  EXPECT_EQ(ask("truth")["values"], json::parse("[false, true]"));
  EXPECT_EQ(ask("none")["values"], json::array());
  EXPECT_EQ(ask("scalar")["values"], 0);
  EXPECT_EQ(ask("note")["value"], "a\x1b[31mb");
  EXPECT_EQ(ask("config")["documents"]["data.json"]["width"], 512);
  EXPECT_THAT(run_cli({"show", path(), "big", "--json"}).err, HasSubstr("20,000 elements"));
}

TEST_F(CliShow, WritesAFileOfNumpy) {
  const CliResult result = run_cli({"show", path(), "model/small[1:3, 2:]", "--npy"});

  ASSERT_EQ(result.status, 0) << result.err;
  const std::string header = "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }";
  ASSERT_EQ(result.out.size(), 128U + 4 * sizeof(std::int64_t));
  EXPECT_EQ(result.out.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(result.out.substr(10, 118), header + std::string(117 - header.size(), ' ') + "\n");
  std::vector<std::int64_t> elements(4);
  std::memcpy(elements.data(), result.out.data() + 128, 4 * sizeof(std::int64_t));
  EXPECT_EQ(elements, (std::vector<std::int64_t>{6, 7, 10, 11}));
  EXPECT_THAT(run_cli({"show", path(), "model/long", "--npy"}).out, HasSubstr("'shape': (2000,), }"));
  EXPECT_THAT(run_cli({"show", path(), "model/scalar", "--npy"}).out, HasSubstr("'shape': (), }"));
}

TEST_F(CliShow, WritesARowOfTheLastDimensionOnALine) {
  EXPECT_EQ(run_cli({"show", path(), "model/small", "--csv"}).out, "0,1,2,3\n4,5,6,7\n8,9,10,11\n");
  EXPECT_EQ(run_cli({"show", path(), "model/cube[1]", "--csv"}).out, "6,7,8\n9,10,11\n");
  EXPECT_EQ(run_cli({"show", path(), "model/odd", "--csv"}).out, "0.1\n-1.5\nnan\n-inf\n");
  EXPECT_EQ(run_cli({"show", path(), "model/complex[0]", "--csv"}).out, "1+2j\n");
  EXPECT_EQ(run_cli({"show", path(), "model/none", "--csv"}).out, "");
  EXPECT_EQ(run_cli({"show", path(), "model/float4", "--csv"}).out, "0.5,1,1.5,2\n3,4,6,-6\n");
}

TEST_F(CliShow, WritesAllElementsHoweverManyThereAre) {
  const CliResult result = run_cli({"show", path(), "model/big", "--raw"});

  ASSERT_EQ(result.out.size(), 20000 * sizeof(std::int64_t)) << result.err;
  std::int64_t last = 0;
  std::memcpy(&last, result.out.data() + 19999 * sizeof(std::int64_t), sizeof(last));
  EXPECT_EQ(last, 19999);
}

TEST_F(CliShow, RefusesWhatCannotBeWrittenSo) {
  const auto refused = [](std::vector<std::string> words, int status) {
    words.insert(words.begin(), {"show", path()});
    const CliResult result = run_cli(words);
    EXPECT_EQ(result.status, status);
    EXPECT_EQ(result.out, "");
    return result.err;
  };

  EXPECT_THAT(refused({"model/bfloat", "--npy"}, 1),
              HasSubstr("'model/bfloat': numpy has no bfloat16; --csv"));
  EXPECT_THAT(refused({"model/float4[0]", "--raw"}, 1), HasSubstr("share bytes; write the whole array"));
  EXPECT_THAT(refused({"model/step", "--csv"}, 1), HasSubstr("'model/step' is not an array: --npy"));
  EXPECT_THAT(refused({"model/small", "--csv", "--raw"}, 2), HasSubstr("--raw"));
  EXPECT_THAT(refused({"model/small", "--npy", "--json"}, 2), HasSubstr("--json"));
}

}  // namespace
}  // namespace cairn::cli
