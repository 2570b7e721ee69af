// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/pickle.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "formats/fixtures.hpp"
#include "support/fails.hpp"

namespace cairn::formats {
namespace {

using testing::Fails;
using ::testing::HasSubstr;
using std::string_literals::operator""s;

Pickle read_pickle(std::string_view text) {
  return Pickle::read(as_bytes(text), "f");
}

struct BadPickle {
  const char* name;
  std::string text;
  const char* message;
};

class PickleHostile : public ::testing::TestWithParam<BadPickle> {};

TEST_P(PickleHostile, IsRefusedWithTheReason) {
  EXPECT_THAT([] { static_cast<void>(read_pickle(GetParam().text)); },
              Fails(Errc::malformed_metadata, HasSubstr(GetParam().message)));
}

const std::string kHuge = std::string(7, '\0') + "\x80";  // 2^63.

INSTANTIATE_TEST_SUITE_P(
    Pickles, PickleHostile,
    ::testing::Values(
        BadPickle{"Nothing", "", "1 bytes are asked for, and 0 are left"},
        BadPickle{"NoEnd", "N", "1 bytes are asked for"}, BadPickle{"NoValue", ".", "other than one value"},
        BadPickle{"TwoValues", "NN.", "other than one value"},
        BadPickle{"OpenMark", "(N.", "other than one value"},
        BadPickle{"BytesBehind", "N.N", "byte 1 of the pickle: bytes follow"},
        BadPickle{"Unknown", "\xff.", "0xff is not an opcode"},
        BadPickle{"Inst", "(ios\nsystem\n.", "the opcode INST is not read"},
        BadPickle{"Obj", "(cos\nsystem\no.", "the opcode OBJ is not read"},
        BadPickle{"Persid", "P1\n.", "the opcode PERSID"}, BadPickle{"Ext1", "\x82\x01.", "the opcode EXT1"},
        BadPickle{"Ext2", "\x83\x01\x01.", "the opcode EXT2"},
        BadPickle{"Ext4", "\x84\x01\x01\x01\x01.", "the opcode EXT4"},
        BadPickle{"TextForms", "I1\n.", "the opcode INT is not read"},
        BadPickle{"Buffers", "\x97.", "the opcode NEXT_BUFFER"},
        BadPickle{"TextOf2To63", "\x8d" + kHuge + ".", "9223372036854775808 bytes are asked for"},
        BadPickle{"BytesOf2To63", "\x8e" + kHuge + ".", "bytes are asked for"},
        BadPickle{"ByteArrayOf2To63", "\x96" + kHuge + ".", "bytes are asked for"},
        BadPickle{"FrameOf2To63", "\x95" + kHuge + "N.", "a frame ends beyond"},
        BadPickle{"NegativeLong", "\x8b\xff\xff\xff\xff.", "4294967295 bytes are asked for"},
        BadPickle{"NegativeString", "T\xff\xff\xff\xff.", "4294967295 bytes are asked for"},
        BadPickle{"NoMark", "t.", "no mark lies"}, BadPickle{"PopOfNothing", "0N.", "no mark lies"},
        BadPickle{"ThroughAMark", "N(\x85.", "the stack is empty"},
        BadPickle{"ReduceOfNothing", "R.", "the stack is empty"},
        BadPickle{"ArgumentsAreNoTuple", "cos\nsystem\n]R.", "arguments are not a tuple"},
        BadPickle{"AppendToNone", "NNa.", "takes none"}, BadPickle{"AppendToATuple", ")Na.", "takes none"},
        BadPickle{"SetItemOfAList", "]NNs.", "takes none"},
        BadPickle{"KeyWithoutValue", "}(Nu.", "a key has no value"},
        BadPickle{"MixedItems", "ca\nb\n)RNaNNs.", "takes none"},
        BadPickle{"StateOfAList", "]}b.", "a state is given"},
        BadPickle{"TwoStates", "ca\nb\n)R}b}b.", "two states"},
        BadPickle{"NeverMemorised", "h\x01.", "nothing was memorised as number 1"},
        BadPickle{"MemoOf2To32", "Nr\xff\xff\xff\xff.", "memorised as number 4294967295"},
        BadPickle{"NameWithoutEnd", "cos\nsystem", "a name has no end"},
        BadPickle{"ClassOfNumbers", "K\1K\2\x93.", "other than texts"}),
    [](const auto& test) { return test.param.name; });

TEST(Pickle, ReadsNumbersOfAnySize) {
  const auto kind_of = [](std::string_view text) { return read_pickle(text).kind(read_pickle(text).root()); };
  const auto integer = [](std::string_view text) {
    const Pickle pickle = read_pickle(text);
    EXPECT_EQ(pickle.kind(pickle.root()), PickleKind::integer);
    return static_cast<std::int64_t>(pickle.integer(pickle.root()));
  };

  EXPECT_EQ(integer("\x8a\0."s), 0);
  EXPECT_EQ(integer("\x8a\1\xff."s), -1);
  EXPECT_EQ(integer("J\xfe\xff\xff\xff."s), -2);
  EXPECT_EQ(integer("M\0\1."s), 256);
  EXPECT_EQ(integer("\x8a\x0c\x05\0\0\0\0\0\0\0\0\0\0\0."s), 5);
  EXPECT_EQ(integer("\x8a\x09\0\0\0\0\0\0\0\x80\xff."s), INT64_MIN);
  EXPECT_EQ(kind_of("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0."s), PickleKind::unsigned_integer);
  EXPECT_EQ(kind_of("\x8a\x09\0\0\0\0\0\0\0\0\1."s), PickleKind::huge_integer);
  EXPECT_EQ(kind_of("\x8a\x09\0\0\0\0\0\0\0\0\xff."s), PickleKind::huge_integer);
  EXPECT_EQ(kind_of("\x8b\0\1\0\0"s + std::string(256, '\0') + "."), PickleKind::huge_integer);
}

TEST(Pickle, WritesIntegersOfAnySizeInDecimal) {
  const auto decimal = [](const std::string& text) {
    const Pickle pickle = read_pickle(text);
    return pickle.decimal(pickle.root());
  };

  EXPECT_EQ(decimal("\x8a\0."s), "0");
  EXPECT_EQ(decimal("J\xfe\xff\xff\xff."s), "-2");
  EXPECT_EQ(decimal("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0."s), "18446744073709551615");
  EXPECT_EQ(decimal("\x8a\x09\0\0\0\0\0\0\0\0\1."s), "18446744073709551616");
  EXPECT_EQ(decimal("\x8a\x09\0\0\0\0\0\0\0\0\xff."s), "-18446744073709551616");
  EXPECT_EQ(decimal("\x8a\x0b\0\0\0\0\0\0\0\0\0\0\1."s), "1208925819614629174706176");
  EXPECT_EQ(decimal("\x8a\x0c\0\0\0\0\0\0\0\0\0\0\0\x80."s), "-39614081257132168796771975168");
  EXPECT_EQ(decimal("\x8b\0\1\0\0"s + std::string(256, '\1') + "."), std::nullopt);
  EXPECT_EQ(decimal("X\1\0\0\0001."s), std::nullopt);
}

TEST(Pickle, SaysHowToWriteWhatIsOfAnOldProtocol) {
  for (const char* text : {"I1\n.", "(lp0\n.", "F1.5\n."}) {
    EXPECT_THAT([&] { static_cast<void>(read_pickle(text)); },
                Fails(Errc::malformed_metadata, HasSubstr("pickle_protocol")));
  }
}

TEST(Pickle, KeepsTheOrderOfItemsThatComeInTurns) {
  // Each of two lists under numbers 1 and 2 of the memo gets an item, then the other.
  const Pickle pickle = read_pickle("]q\1]q\2K\3a0h\1K\4ah\2(K\5K\6eh\1K\7a000\x85.");

  ASSERT_EQ(pickle.kind(pickle.root()), PickleKind::tuple);
  std::vector<std::uint64_t> numbers;
  PickleNode node{};
  for (Pickle::Items items = pickle.items(pickle.tuple(pickle.root())[0]); items.next(node);) {
    numbers.push_back(pickle.integer(node));
  }
  EXPECT_EQ(numbers, (std::vector<std::uint64_t>{4, 7}));
}

TEST(Pickle, RefusesALaterProtocol) {
  EXPECT_THAT([] { static_cast<void>(read_pickle("\x80\6N.")); },
              Fails(Errc::unsupported_version, HasSubstr("protocol 6")));
}

TEST(Pickle, NamesCallsAndMakesNone) {
  const std::string text =
      "cos\nsystem\n(X\2\0\0\0lst"
      "R}b."s;
  const Pickle pickle = read_pickle(text);

  EXPECT_EQ(pickle.kind(pickle.root()), PickleKind::object);
  EXPECT_EQ(pickle.class_name(pickle.root()), "os.system");
  EXPECT_EQ(pickle.text(pickle.tuple(pickle.arguments(pickle.root()))[0]), "ls");
}

}  // namespace
}  // namespace cairn::formats
