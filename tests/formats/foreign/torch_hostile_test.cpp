// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "formats/fixtures.hpp"
#include "formats/foreign/checkpoint_files.hpp"
#include "formats/internal/torch_archive.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::formats {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;

const std::vector<std::string> kStorage{std::string(24, '\1')};  // Six elements of f32.

TensorPickle good_tensor() {
  TensorPickle tensor;
  tensor.count = pickled(6);
  tensor.offset = pickled(0);
  tensor.shape = pickled_tuple(pickled(2) + pickled(3));
  tensor.strides = pickled_tuple(pickled(3) + pickled(1));
  return tensor;
}

void expect_refused(const std::string& pickle, const char* why) {
  const std::string archive = make_torch_archive(pickle, kStorage);
  EXPECT_THAT([&] { static_cast<void>(read_archive(archive)); },
              Fails(Errc::malformed_metadata, HasSubstr(why)));
}

void expect_refused(const TensorPickle& tensor, const char* why) {
  expect_refused(tensor.text() + ".", why);
}

void expect_left_out(const std::string& pickle, const char* why) {
  const Files files{{"f", make_torch_archive(pickle, kStorage)}};
  EXPECT_THAT(shown(read_archive(files.at("f")), files).at(""),
              AllOf(::testing::StartsWith("left out: "), HasSubstr(why)));
}

void expect_left_out(const TensorPickle& tensor, const char* why) {
  expect_left_out(tensor.text() + ".", why);
}

std::string numbers(std::uint64_t first, std::uint64_t second) {
  return pickled_tuple(pickled(first) + pickled(second));
}

constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();

TEST(TorchHostile, ReadsTheTensorThatTheOthersAreMadeOf) {
  const Files files{{"f", make_torch_archive(good_tensor().text() + ".", kStorage)}};

  EXPECT_EQ(shown(read_archive(files.at("f")), files).at(""), "F32 [2, 3] " + sha256(kStorage[0]));
}

TEST(TorchHostile, RefusesTensorsBeyondTheirStorage) {
  TensorPickle tensor = good_tensor();
  tensor.offset = pickled(1);
  expect_refused(tensor, "reach beyond the 24 bytes");
  tensor.offset = pickled(kMost);
  expect_refused(tensor, "reach beyond");
  tensor.offset = pickled(std::uint64_t{1} << 63);
  expect_left_out(tensor, "numbers from 0 up");
  tensor = good_tensor();
  tensor.strides = numbers(kMost, kMost);
  expect_refused(tensor, "reach beyond");
  tensor.strides = numbers(4, 1);
  expect_refused(tensor, "reach beyond");
  tensor.shape = numbers(kMost, kMost);
  expect_left_out(tensor, "whole number of bytes below 2^63");
  tensor.shape = numbers(std::uint64_t{1} << 63, 1);
  expect_left_out(tensor, "numbers from 0 up");
}

TEST(TorchHostile, LeavesOutNegativeStridesAndShapes) {
  const std::string minus_one = "J\xff\xff\xff\xff";
  TensorPickle tensor = good_tensor();
  tensor.strides = pickled_tuple(pickled(3) + minus_one);
  expect_left_out(tensor, "numbers from 0 up");
  tensor = good_tensor();
  tensor.shape = pickled_tuple(minus_one + pickled(3));
  expect_left_out(tensor, "numbers from 0 up");
  tensor = good_tensor();
  tensor.shape = pickled_tuple(pickled(6));
  expect_left_out(tensor, "differ in rank");
}

TEST(TorchHostile, RefusesStoragesThatLie) {
  TensorPickle tensor = good_tensor();
  tensor.count = pickled(7);
  expect_refused(tensor, "has 24 bytes, but its tensor says otherwise");
  tensor.count = pickled(kMost);
  expect_refused(tensor, "says otherwise");
  tensor = good_tensor();
  tensor.key = "1";
  expect_refused(tensor, "'data/1' is missing");
  tensor.key = "../data.pkl";
  expect_refused(tensor, "is missing");
}

TEST(TorchHostile, LeavesOutOtherArguments) {
  expect_left_out("ctorch._utils\n_rebuild_tensor_v2\n)R.", "other arguments");
  expect_left_out("ctorch._utils\n_rebuild_tensor_v2\n(NNNNtR.", "without a storage");
  expect_left_out("ctorch._utils\n_rebuild_tensor_v2\n(NQNNNtR.", "other arguments");
  expect_left_out("ctorch._utils\n_rebuild_parameter\n)R.", "other than a tensor");
  expect_left_out("ctorch._utils\n_rebuild_parameter\n(NNNtR.", "other than a tensor");
  expect_left_out("cnumpy.core.multiarray\n_reconstruct\n)R.", "other arguments");
  expect_left_out("cnumpy._core.numeric\n_frombuffer\n(NNNNNNtR.", "other arguments");
}

/// A pickle of protocol 5 of an array of numpy: six numbers of u1, whose memory has the extents [2, 3].
std::string numpy_by_axes(const std::string& order, const std::string& axes) {
  const auto text = [](std::string_view value) { return pickled(value); };
  const std::string dtype = "cnumpy\ndtype\n(" + text("u1") + "\x89\x88tR(K\3" + text("|") + "NNNNNtb";
  return "cnumpy._core.numeric\n_frombuffer\n(C\6abcdef" + dtype + numbers(2, 3) + text(order) + axes + "tR.";
}

TEST(TorchHostile, ReadsArraysOfNumpyWhoseAxesLieInAnyOrder) {
  const auto line = [](const std::string& pickle) {
    const Files files{{"f", make_torch_archive(pickle)}};
    return shown(read_archive(files.at("f")), files).at("");
  };

  EXPECT_EQ(line(numpy_by_axes("C", "")), "U8 [2, 3] " + sha256("abcdef"));
  EXPECT_EQ(line(numpy_by_axes("C", "N")), "U8 [2, 3] " + sha256("abcdef"));
  EXPECT_EQ(line(numpy_by_axes("F", "")), "U8 [2, 3] " + sha256("acebdf"));
  EXPECT_EQ(line(numpy_by_axes("K", numbers(1, 0))), "U8 [3, 2] " + sha256("adbecf"));
  for (const std::string& axes :
       {numbers(1, 1), numbers(0, 2), pickled_tuple(pickled(0)), std::string("N")}) {
    EXPECT_THAT(line(numpy_by_axes("K", axes)), HasSubstr("other bytes than its shape asks for"));
  }
  EXPECT_THAT(line(numpy_by_axes("K", "")), HasSubstr("other arguments"));
}

TEST(TorchHostile, TakesViewsThatShareElements) {
  TensorPickle tensor = good_tensor();
  tensor.shape = numbers(4, 3);
  tensor.strides = numbers(1, 1);
  const Files files{{"f", make_torch_archive(tensor.text() + ".", kStorage)}};

  EXPECT_EQ(shown(read_archive(files.at("f")), files).at("").substr(0, 10), "F32 [4, 3]");
}

TEST(TorchHostile, EndsBombsOfSharedNodes) {
  std::string bomb = "]q\1Na";  // Sixty lists, each of which holds the one before it twice.
  for (char i = 2; i < 62; ++i) {
    bomb += std::string("]q") + i + "(h" + static_cast<char>(i - 1) + "h" + static_cast<char>(i - 1) + "e";
  }
  std::string map = "}q\1NNs";
  for (char i = 2; i < 62; ++i) {
    map +=
        std::string("}q") + i + "(K\1h" + static_cast<char>(i - 1) + "K\2h" + static_cast<char>(i - 1) + "u";
  }

  // A tuple of all of them, the last among them.
  expect_refused("(" + bomb + "t.", "many times as large");
  expect_refused("(" + map + "t.", "many times as large");
}

TEST(TorchHostile, EndsLongTextsThatComeAgainAndAgain) {
  std::string text = "(" + pickled(std::string_view(std::string(1 << 20, 'x'))) + "q\1";
  for (int i = 0; i < 10'000; ++i) {
    text += "h\1";
  }

  expect_refused(text + "t.", "many times as large");
  expect_refused("c__builtin__\nrange\n(" + pickled(0) + pickled(kMost) + "K\1tR.", "many times as large");
}

TEST(TorchHostile, LooksAtLongNamesOfClassesForAMoment) {
  std::string objects = "(" + pickled(std::string_view(std::string(1 << 20, 'x'))) + "q\1" +
                        pickled(std::string_view("y")) + "\x93)Rq\2";
  for (int i = 0; i < 10'000; ++i) {
    objects += "h\2";
  }
  const Files files{{"f", make_torch_archive(objects + "t.")}};

  EXPECT_EQ(shown(read_archive(files.at("f")), files).at("1").size(), 1074u);
}

std::map<std::string, std::string> leaves_of(const std::string& pickle) {
  const Files files{{"f", make_torch_archive(pickle, kStorage)}};
  return shown(read_archive(files.at("f")), files);
}

TEST(TorchHostile, EndsLoopsAndDepth) {
  EXPECT_EQ(leaves_of("]q\1h\1a.").at("0"), "left out: a container that holds itself");
  const auto map = leaves_of("}q\1(K\1h\1K\2K\3u.");
  EXPECT_EQ(map.at("1"), "left out: a container that holds itself");
  EXPECT_EQ(map.at("2"), "int 3");
  // Twice the same is none that holds itself.
  EXPECT_EQ(leaves_of("]q\1K\1ah\1\x86.").at("1/0"), "int 1");

  const auto deep = leaves_of(std::string(100'000, ']') + std::string(99'999, 'a') + ".");
  EXPECT_EQ(deep.size(), 1001u);
  EXPECT_TRUE(std::any_of(deep.begin(), deep.end(), [](const auto& line) {
    return line.second == "left out: what is deeper than 1000 levels";
  }));
}

TEST(TorchHostile, RunsNothing) {
  const testing::TempDir directory;
  const std::string command = pickled(std::string_view("touch " + (directory / "made").string()));
  const std::string weights = pickled(std::string_view("w")) + good_tensor().text();
  const std::string tuple = "(" + command + "t";
  const std::vector<std::string> calls{
      "cos\nsystem\n" + tuple + "R",
      "cposix\nsystem\n" + tuple + "\x81",
      "cos\nsystem\n" + tuple + "}\x92",
      pickled(std::string_view("os")) + pickled(std::string_view("system")) + "\x93" + tuple + "R",
      "cbuiltins\neval\n" + tuple + "R",
      "cbuiltins\ngetattr\n(cos\nsystem\n" + command + "tR" + tuple + "R",
      "cos\nsystem\n)R(" + command + "tb",
      "cos\nsystem\n)R" + command + "a",
      "csubprocess\nPopen\n" + tuple + "R"};

  for (const std::string& call : calls) {
    const std::string pickle = "}(" + weights + pickled(std::string_view("bad")) + call + "u.";
    const Files files{{"f", make_torch_archive(pickle, kStorage)}};
    const auto lines = shown(read_archive(files.at("f")), files);

    EXPECT_EQ(lines.at("w"), "F32 [2, 3] " + sha256(kStorage[0]));
    EXPECT_THAT(lines.at("bad"), ::testing::StartsWith("left out: an object "));
  }
  EXPECT_TRUE(testing::list_tree(directory.path()).empty());
}

TEST(TorchHostile, RefusesFoldersThatDiffer) {
  const auto read = [](const std::vector<ArchiveMember>& members) {
    static_cast<void>(read_archive(make_archive(members)));
  };
  EXPECT_THAT(
      [&] {
        read({{"a/data.pkl", "N."}, {"b/version", "3\n"}});
      },
      Fails(Errc::malformed_metadata, HasSubstr("no common folder")));
  EXPECT_THAT(
      [&] {
        read({{"data.pkl", "N."}});
      },
      Fails(Errc::malformed_metadata, HasSubstr("no common folder")));
  EXPECT_THAT([&] { read({{"a/data.pkl", "N."}, {"a/version", "4\n"}}); }, Fails(Errc::unsupported_version));
  EXPECT_THAT(
      [&] {
        read({{"a/data.pkl", "N."}, {"a/version", "three"}});
      },
      Fails(Errc::malformed_metadata, HasSubstr("not a number")));
  EXPECT_THAT(
      [&] {
        read({{"a/data.pkl", "N."}, {"a/byteorder", "middle"}});
      },
      Fails(Errc::malformed_metadata, HasSubstr("byte order")));
  EXPECT_THAT(
      [&] {
        read({{"a/data.pkl", "N."}, {"a/version", std::string(100, '3')}});
      },
      Fails(Errc::malformed_metadata, HasSubstr("100 bytes")));
}

TEST(TorchHostile, ReadsRangesBothWays) {
  const auto range = [](const std::string& numbers) {
    const Files files{{"f", make_torch_archive("c__builtin__\nxrange\n(" + numbers + "tR.")}};
    std::string lines;
    for (const auto& [path, line] : shown(read_archive(files.at("f")), files)) {
      lines += line + ";";
    }
    return lines;
  };
  const std::string minus_two = "J\xfe\xff\xff\xff";
  const std::string least = std::string("\x8a\x08\0\0\0\0\0\0\0\x80", 10);

  EXPECT_EQ(range("K\1K\6K\2"), "list 3;int 1;int 3;int 5;");
  EXPECT_EQ(range("K\5K\1" + minus_two), "list 2;int 5;int 3;");
  EXPECT_EQ(range("K\5K\5K\1"), "list 0;");
  EXPECT_EQ(range(pickled(kMost) + least + least), "list 2;int 9223372036854775807;int -1;");
  EXPECT_EQ(range("K\1K\6J" + std::string(4, '\0')),
            "left out: an object that a call of 'builtins.xrange' would make;");
}

TEST(TorchHostile, LeavesOutKeysAndTextsThatAreNone) {
  const Files files{{"f", make_torch_archive("}(NK\1" + pickled(std::string_view("t")) +
                                             pickled(std::string_view("\xff")) + "u.")}};
  const auto lines = shown(read_archive(files.at("f")), files);

  EXPECT_EQ(lines.at("t"), "left out: a text that is not Unicode");
  EXPECT_THAT(lines.at(""), HasSubstr("under a key that is neither"));
}

}  // namespace
}  // namespace cairn::formats
