// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "formats/fixtures.hpp"
#include "formats/internal/safetensors.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::formats {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

struct Hostile {
  const char* name;
  std::string file;
  const char* message;
};

/// A file of one tensor 'w' whose description is `body`.
std::string tensor(std::string_view body, std::size_t data_bytes) {
  return make_file(fmt::format(R"({{"w":{{{}}}}})", body), data_bytes);
}

std::string with_length(std::uint64_t length, std::string_view rest) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file.append(rest);
}

std::string repeat(std::string_view text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    out += text;
  }
  return out;
}

class SafetensorsHostile : public ::testing::TestWithParam<Hostile> {};

TEST_P(SafetensorsHostile, IsRefusedWithTheReason) {
  EXPECT_THAT([] { parse(GetParam().file); }, Fails(Errc::malformed_metadata, HasSubstr(GetParam().message)));
}

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

INSTANTIATE_TEST_SUITE_P(
    Lengths, SafetensorsHostile,
    ::testing::Values(
        Hostile{"NoBytes", "", "too small"}, Hostile{"SevenBytes", "1234567", "too small"},
        Hostile{"NoHeader", with_length(0, ""), "does not start with '{'"},
        Hostile{"OneByteShort", with_length(3, "{}"), "does not fit the file"},
        Hostile{"MoreThanTheFormatAllows", with_length(100'000'001, "{}"), "larger than the format"},
        Hostile{"TwoToThe63", with_length(std::uint64_t{1} << 63, "{}"), "larger than the format"},
        Hostile{"WrapsAround", with_length(kHuge - 7, "{}"), "larger than the format"},
        Hostile{"AllOnes", with_length(kHuge, "{}"), "larger than the format"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Json, SafetensorsHostile,
    ::testing::Values(
        Hostile{"StartsWithASpace", make_file(" {}", 0), "does not start with '{'"},
        Hostile{"StartsWithAByteOrderMark", make_file("\xEF\xBB\xBF{}", 0), "does not start with '{'"},
        Hostile{"IsAnArray", make_file("[]", 0), "does not start with '{'"},
        Hostile{"HasNoEnd", make_file("{", 0), "expected"},
        Hostile{"EndsTwice", make_file("{}}", 0), "something follows"},
        Hostile{"HasANulBehindTheEnd", make_file(std::string_view("{}\0", 3), 0), "something follows"},
        Hostile{"HasAFormFeedBehindTheEnd", make_file("{}\f", 0), "something follows"},
        Hostile{"HasACommaAtTheEnd", make_file(R"({"__metadata__":{"a":"b",}})", 0), "expected '\"'"},
        Hostile{"HasAComment", make_file("{/**/}", 0), "expected '\"'"},
        Hostile{"HasInvalidUtf8", make_file("{\"__metadata__\":{\"\xff\":\"\"}}", 0), "not valid UTF-8"},
        Hostile{"HasOverlongUtf8", make_file("{\"__metadata__\":{\"\xc0\xaf\":\"\"}}", 0), "not valid UTF-8"},
        Hostile{"HasAnEncodedSurrogate", make_file("{\"__metadata__\":{\"\xed\xa0\x80\":\"\"}}", 0),
                "not valid UTF-8"},
        Hostile{"HasALoneHighSurrogate", make_file(R"({"__metadata__":{"\ud800":""}})", 0), "high surrogate"},
        Hostile{"HasALoneLowSurrogate", make_file(R"({"__metadata__":{"\udc00":""}})", 0), "low surrogate"},
        Hostile{"HasTwoHighSurrogates", make_file(R"({"__metadata__":{"\ud800\ud800":""}})", 0),
                "high surrogate"},
        Hostile{"HasAnUnknownEscape", make_file(R"({"__metadata__":{"\x41":""}})", 0), "unknown escape"},
        Hostile{"HasAControlCharacter", make_file("{\"__metadata__\":{\"\n\":\"\"}}", 0),
                "control character"},
        Hostile{"HasAStringWithoutEnd", make_file(R"({"__metadata__)", 0), "no end"},
        Hostile{"IsAMillionDeep", make_file(R"({"w":{"x":)" + repeat("[", 1'000'000), 0),
                "nested deeper than 127"},
        Hostile{"IsAMillionObjectsDeep", make_file(R"({"w":{"x":)" + repeat("{\"a\":", 1'000'000), 0),
                "nested deeper than 127"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Metadata, SafetensorsHostile,
    ::testing::Values(Hostile{"HoldsANumber", make_file(R"({"__metadata__":{"a":1}})", 0), "expected '\"'"},
                      Hostile{"HoldsNull", make_file(R"({"__metadata__":{"a":null}})", 0), "expected '\"'"},
                      Hostile{"HoldsAnObject", make_file(R"({"__metadata__":{"a":{}}})", 0), "expected '\"'"},
                      Hostile{"IsAString", make_file(R"({"__metadata__":"a"})", 0), "expected '{'"},
                      Hostile{"IsGivenTwice", make_file(R"({"__metadata__":{},"__metadata__":{}})", 0),
                              "given twice"},
                      Hostile{"HoldsAKeyTwice", make_file(R"({"__metadata__":{"a":"1","\u0061":"2"}})", 0),
                              "'a' is given twice"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Tensors, SafetensorsHostile,
    ::testing::Values(
        Hostile{"IsANumber", make_file(R"({"w":1})", 0), "expected '{'"},
        Hostile{"IsAnArray", make_file(R"({"w":["U8",[],[0,1]]})", 1), "expected '{'"},
        Hostile{"HasNoDtype", tensor(R"("shape":[],"data_offsets":[0,1])", 1), "tensor 'w': needs"},
        Hostile{"HasNoShape", tensor(R"("dtype":"U8","data_offsets":[0,1])", 1), "tensor 'w': needs"},
        Hostile{"HasNoOffsets", tensor(R"("dtype":"U8","shape":[])", 1), "tensor 'w': needs"},
        Hostile{"HasAnUnknownDtype", tensor(R"("dtype":"F128","shape":[],"data_offsets":[0,16])", 16),
                "'F128'"},
        Hostile{"HasADtypeOfTheIndexAlone", tensor(R"("dtype":"C128","shape":[],"data_offsets":[0,16])", 16),
                "unknown dtype 'C128'"},
        Hostile{"HasALowerCaseDtype", tensor(R"("dtype":"u8","shape":[],"data_offsets":[0,1])", 1), "'u8'"},
        Hostile{"HasADtypeThatIsANumber", tensor(R"("dtype":1,"shape":[],"data_offsets":[0,1])", 1),
                "expected '\"'"},
        Hostile{"HasTwoDtypes", tensor(R"("dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1])", 1),
                "'dtype' is given twice"},
        Hostile{"HasTwoShapes", tensor(R"("dtype":"U8","shape":[],"shape":[],"data_offsets":[0,1])", 1),
                "'shape' is given twice"},
        Hostile{"HasOffsetsTwice",
                tensor(R"("dtype":"U8","shape":[],"data_offsets":[0,1],"data_offsets":[0,1])", 1),
                "'data_offsets' is given twice"},
        Hostile{"HasOneOffset", tensor(R"("dtype":"U8","shape":[],"data_offsets":[0])", 1), "needs two"},
        Hostile{"HasThreeOffsets", tensor(R"("dtype":"U8","shape":[],"data_offsets":[0,1,1])", 1),
                "more than two"},
        Hostile{"HasANameTwice",
                make_file(R"({"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                          R"("\u0077":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                          0),
                "tensor 'w': is given twice"},
        Hostile{"HasTooManyDimensions",
                tensor(R"("dtype":"U8","shape":[1)" + repeat(",1", 64) + R"(],"data_offsets":[0,1])", 1),
                "more than 64 dimensions"}),
    [](const auto& test) { return test.param.name; });

std::string with_extent(std::string_view extent) {
  return tensor(fmt::format(R"("dtype":"U8","shape":[{}],"data_offsets":[0,1])", extent), 1);
}

INSTANTIATE_TEST_SUITE_P(
    Numbers, SafetensorsHostile,
    ::testing::Values(Hostile{"Fraction", with_extent("1.0"), "expected an unsigned integer"},
                      Hostile{"Exponent", with_extent("1e0"), "expected an unsigned integer"},
                      Hostile{"Negative", with_extent("-1"), "expected an unsigned integer"},
                      Hostile{"NegativeZero", with_extent("-0"), "expected an unsigned integer"},
                      Hostile{"PlusSign", with_extent("+1"), "expected an unsigned integer"},
                      Hostile{"LeadingZero", with_extent("01"), "must not start with 0"},
                      Hostile{"Hexadecimal", with_extent("0x1"), "expected ','"},
                      Hostile{"TwoToThe64", with_extent("18446744073709551616"), "does not fit in 64 bits"},
                      Hostile{"String", with_extent("\"1\""), "expected an unsigned integer"},
                      Hostile{"Null", with_extent("null"), "expected an unsigned integer"},
                      Hostile{"NotANumber", with_extent("NaN"), "expected an unsigned integer"},
                      Hostile{"Huge", tensor(R"("x":1e999999)", 1), "the number 1e999999 is too large"}),
    [](const auto& test) { return test.param.name; });

/// A file of two U8 tensors whose offsets are `a` and `b`, with shapes that fit.
std::string two(std::uint64_t a_begin, std::uint64_t a_end, std::uint64_t b_begin, std::uint64_t b_end,
                std::size_t data_bytes) {
  return make_file(fmt::format(R"({{"a":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}},)"
                               R"("b":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
                               a_end - a_begin, a_begin, a_end, b_end - b_begin, b_begin, b_end),
                   data_bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Offsets, SafetensorsHostile,
    ::testing::Values(
        Hostile{"LeaveAHole", two(0, 2, 3, 5, 5), "tensor 'b': data_offsets [3, 5] leave a hole"},
        Hostile{"LeaveAHoleAtTheStart", two(1, 2, 2, 3, 3), "tensor 'a': data_offsets [1, 2]"},
        Hostile{"Overlap", two(0, 2, 1, 3, 3), "tensor 'b': data_offsets [1, 3]"},
        Hostile{"AreTheSame", two(0, 2, 0, 2, 2), "tensor 'b': data_offsets [0, 2]"},
        Hostile{"LeaveBytesAtTheEnd", two(0, 2, 2, 3, 4), "the tensors end at 3"},
        Hostile{"ReachBeyondTheEnd", two(0, 2, 2, 4, 3), "tensor 'b': ends at 4"},
        Hostile{"AreBackwards", tensor(R"("dtype":"U8","shape":[0],"data_offsets":[1,0])", 0),
                "run backwards"},
        Hostile{
            "AreBackwardsFromTheStart",
            tensor(R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,18446744073709551615])",
                   1),
            "tensor 'w'"},
        Hostile{"LeaveDataWithoutTensors", make_file("{}", 1), "the tensors end at 0"},
        Hostile{"PutAnEmptyTensorInsideAnother",
                make_file(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                          R"("e":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})",
                          4),
                "tensor 'e': data_offsets [2, 2]"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Shapes, SafetensorsHostile,
    ::testing::Values(
        Hostile{"AskForMore", tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4),
                "takes 8 bytes"},
        Hostile{"AskForLess", tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])", 8),
                "takes 4 bytes"},
        Hostile{"WrapToZero",
                tensor(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0),
                "whole number"},
        Hostile{"WrapToZeroInBytes",
                tensor(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])", 0),
                "whole number"},
        Hostile{"OverflowBeforeAZero",
                tensor(R"("dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0])", 0),
                "whole number"},
        Hostile{"SplitAByte", tensor(R"("dtype":"F4","shape":[3],"data_offsets":[0,1])", 1), "whole number"}),
    [](const auto& test) { return test.param.name; });

TEST(SafetensorsTruncated, IsRefusedAtEveryLength) {
  const std::string file = testing::read_text(data_path("safetensors/mixed_dtypes.safetensors"));

  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_THAT([&] { parse(file.substr(0, size)); }, Fails(Errc::malformed_metadata)) << size;
  }
}

TEST(SafetensorsLengthened, IsRefused) {
  const std::string file = testing::read_text(data_path("safetensors/tiny.safetensors"));

  EXPECT_THAT([&] { parse(file + '\0'); },
              Fails(Errc::malformed_metadata, HasSubstr("the tensors end at 12")));
}

TEST(SafetensorsDamaged, NeverFailsInAnotherWay) {
  const std::string file = testing::read_text(data_path("safetensors/unicode_names.safetensors"));
  std::size_t refused = 0;

  for (std::size_t at = 0; at < 8 + 1880; ++at) {
    for (unsigned flip : {0x01u, 0x20u, 0x80u, 0xFFu}) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(static_cast<unsigned char>(damaged[at]) ^ flip);
      try {
        parse(damaged);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::malformed_metadata) << at;
        ++refused;
      }
    }
  }

  EXPECT_GT(refused, 1000u);
}

}  // namespace
}  // namespace cairn::formats
