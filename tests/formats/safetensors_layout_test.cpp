// SPDX-License-Identifier: Apache-2.0
#include "cairn/formats/safetensors_layout.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "formats/fixtures.hpp"
#include "support/fails.hpp"

namespace cairn::formats {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::Pointee;

using Names = std::vector<std::string>;

/// A shape that lasts as long as the program does: specs refer to theirs.
std::span<const std::uint64_t> lasting(const Shape& shape) {
  static std::deque<Shape> shapes;
  return shapes.emplace_back(shape);
}

TensorSpec spec(std::string_view name, DType dtype, const Shape& shape) {
  TensorSpec spec;
  spec.name = name;
  spec.dtype = dtype;
  spec.shape = lasting(shape);
  return spec;
}

SafetensorsHeader read_back(const SafetensorsLayout& layout) {
  return parse_safetensors(as_bytes(layout.header), layout.file_size, "f");
}

Names names_of(const SafetensorsHeader& header) {
  Names names;
  for (const SafetensorsTensor& tensor : header.tensors) {
    names.push_back(tensor.name);
  }
  return names;
}

TEST(SafetensorsLayout, StartsDataAtAPage) {
  const std::vector<TensorSpec> specs = {spec("w", DType::float32, {3})};

  const SafetensorsLayout layout = plan_safetensors(specs);

  EXPECT_EQ(layout.header.size(), 4096u);
  EXPECT_EQ(layout.header.back(), ' ');
  EXPECT_EQ(layout.file_size, 4096u + 12);
}

TEST(SafetensorsLayout, ReadsBackAsItWasAsked) {
  const std::vector<TensorSpec> specs = {spec("a/b", DType::float32, {2, 3}),
                                         spec("é\"\\\n", DType::boolean, {}),
                                         spec("", DType::complex64, {1, 0})};

  const SafetensorsLayout layout = plan_safetensors(specs);

  const SafetensorsHeader header = read_back(layout);
  ASSERT_EQ(header.tensors.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const TensorSpec& asked = specs[layout.order[i]];
    EXPECT_EQ(header.tensors[i].name, asked.name);
    EXPECT_EQ(header.tensors[i].dtype, asked.dtype);
    EXPECT_THAT(header.tensors[i].shape, ElementsAreArray(asked.shape));
    EXPECT_EQ(header.tensors[i].begin, layout.offsets[layout.order[i]]);
  }
}

TEST(SafetensorsLayout, PutsPageSizedTensorsFirstAndEachOnAPage) {
  const std::vector<TensorSpec> specs = {spec("small", DType::float64, {5}), spec("p1", DType::uint8, {8192}),
                                         spec("odd", DType::uint8, {4097}),
                                         spec("p2", DType::float32, {1024})};

  const SafetensorsLayout layout = plan_safetensors(specs);

  EXPECT_THAT(names_of(read_back(layout)), ElementsAre("p1", "p2", "small", "odd"));
  EXPECT_EQ(layout.offsets[1] % 4096, 0u);
  EXPECT_EQ(layout.offsets[3] % 4096, 0u);
}

TEST(SafetensorsLayout, PutsTheRestByFallingElementSizeInTheOrderGiven) {
  const std::vector<TensorSpec> specs = {spec("b1", DType::uint8, {3}),  spec("h1", DType::bfloat16, {1}),
                                         spec("d", DType::int64, {1}),   spec("b2", DType::boolean, {1}),
                                         spec("f", DType::float32, {1}), spec("n", DType::float4, {2}),
                                         spec("h2", DType::float16, {1})};

  const SafetensorsLayout layout = plan_safetensors(specs);

  EXPECT_THAT(names_of(read_back(layout)), ElementsAre("d", "f", "h1", "h2", "b1", "b2", "n"));
  EXPECT_EQ(layout.offsets[1] % 2, 0u);
}

TEST(SafetensorsLayout, MakesTheSameHeaderLater) {
  const std::vector<TensorSpec> specs = {spec("a", DType::float32, {2, 3}),
                                         spec("\"\\\b\f\n\r\t\x01\x1f", DType::boolean, {}),
                                         spec("é", DType::float4, {2}), spec("", DType::uint8, {4096})};
  SafetensorsOptions options;
  options.metadata = {{"who", "\"me\"\n"}};
  const SafetensorsLayout at_once = plan_safetensors(specs, options);
  options.defers_header = true;

  const SafetensorsLayout deferred = plan_safetensors(specs, options);

  EXPECT_EQ(deferred.header, "");
  EXPECT_EQ(deferred.header_bytes, at_once.header.size());
  EXPECT_EQ(deferred.file_size, at_once.file_size);
  EXPECT_EQ(safetensors_header(specs, deferred, options), at_once.header);
}

TEST(SafetensorsLayout, MakesTheHeaderOfOneOfSeveralFilesLater) {
  const std::vector<TensorSpec> specs = {spec("a", DType::float32, {2}), spec("b", DType::int8, {3}),
                                         spec("c", DType::int64, {4})};
  SafetensorsOptions options;
  options.max_tensors_per_file = 2;
  const std::vector<SafetensorsLayout> at_once = plan_safetensors_files(specs, options);
  options.defers_header = true;

  const std::vector<SafetensorsLayout> deferred = plan_safetensors_files(specs, options);

  ASSERT_EQ(deferred.size(), 2u);
  EXPECT_EQ(safetensors_header(std::span(specs).first(2), deferred[0], options), at_once[0].header);
  EXPECT_EQ(safetensors_header(std::span(specs).last(1), deferred[1], options), at_once[1].header);
}

TEST(SafetensorsLayout, ReadsBackNamesWithAnyCharacterAnywhere) {
  for (const char special : {'\0', '\n', '\x1f', ' ', '"', '\\', '\x7f'}) {
    for (std::size_t at = 0; at < 20; ++at) {
      std::string name(20, 'n');
      name[at] = special;
      const std::vector<TensorSpec> specs = {spec(name, DType::uint8, {10})};

      ASSERT_THAT(names_of(read_back(plan_safetensors(specs))), ElementsAre(name))
          << static_cast<int>(special) << " at " << at;
    }
  }
}

TEST(SafetensorsLayout, CountsTheBytesOfItsHeaderForNamesOfAnyLength) {
  for (std::size_t escapes = 3900; escapes < 4100; ++escapes) {
    const std::string name = std::string(escapes, 'n') + "\x02\n\"";
    const std::vector<TensorSpec> specs = {spec(name, DType::uint8, {10})};

    const SafetensorsLayout layout = plan_safetensors(specs);

    const std::size_t json_end = layout.header.find_last_not_of(' ');
    ASSERT_EQ(layout.header[json_end], '}') << escapes;
    ASSERT_LT(layout.header_bytes - (json_end + 1), 4096u) << escapes;
  }
}

TEST(SafetensorsLayout, CountsTheBytesOfItsHeaderForNumbersOfAnyLength) {
  std::uint64_t power = 1;
  for (int digits = 1; digits <= 18; ++digits, power *= 10) {
    for (const std::uint64_t extent : {power - 1, power}) {
      // One of these lengths makes the header end where a page does, where a miscount by one byte shows.
      for (std::size_t length = 3900; length < 4100; ++length) {
        const std::string name(length, 'n');
        const std::vector<TensorSpec> specs = {spec(name, DType::uint8, {extent})};

        const SafetensorsLayout layout = plan_safetensors(specs);

        const std::size_t json_end = layout.header.find_last_not_of(' ');
        ASSERT_EQ(layout.header[json_end], '}') << extent << ", " << length;
        ASSERT_LT(layout.header_bytes - (json_end + 1), 4096u) << extent << ", " << length;
      }
    }
  }
}

TEST(SafetensorsLayout, OfNoTensorsIsAFileThatOpens) {
  const SafetensorsLayout layout = plan_safetensors({});

  EXPECT_EQ(layout.file_size, 4096u);
  EXPECT_THAT(read_back(layout).metadata, ElementsAre(Pair("format", "pt")));
}

TEST(SafetensorsLayout, CarriesMetadata) {
  SafetensorsOptions options;
  options.metadata = {{"who", "\"me\"\n"}};

  EXPECT_THAT(read_back(plan_safetensors({}, options)).find_metadata("who"),
              Pointee(std::string("\"me\"\n")));
}

TEST(SafetensorsLayout, SaysWhereSlicesLieForEveryTensorOfTheFile) {
  const std::array<std::uint64_t, 2> offsets = {4, 0};
  std::vector<TensorSpec> specs = {spec("row\"", DType::float32, {4, 6}), spec("whole", DType::float32, {2})};
  specs[0].saved_offsets = offsets;

  const SafetensorsHeader header = read_back(plan_safetensors(specs));

  EXPECT_THAT(header.find_metadata("DCP_VERSION"), Pointee(std::string("1.0")));
  EXPECT_THAT(
      header.find_metadata("DCP_SHARDING_INFO"),
      Pointee(std::string(R"({"row\"": {"saved_offsets": [4, 0]}, "whole": {"saved_offsets": [0]}})")));
}

TEST(SafetensorsLayout, RefusesANameTwice) {
  const std::vector<TensorSpec> specs = {spec("w", DType::uint8, {1}), spec("w", DType::uint8, {1})};

  EXPECT_THAT([&] { static_cast<void>(plan_safetensors(specs)); },
              Fails(Errc::already_exists, HasSubstr("'w'")));
}

TEST(SafetensorsLayout, RefusesMetadataThatItWritesItself) {
  SafetensorsOptions options;
  options.metadata = {{"format", "np"}};

  EXPECT_THAT([&] { static_cast<void>(plan_safetensors({}, options)); },
              Fails(Errc::invalid_argument, HasSubstr("'format'")));
}

TEST(SafetensorsLayout, RefusesMetadataThatIsNoUtf8) {
  SafetensorsOptions options;
  options.metadata = {{"a", "\xFF"}};

  EXPECT_THAT([&] { static_cast<void>(plan_safetensors({}, options)); },
              Fails(Errc::invalid_argument, HasSubstr("UTF-8")));
}

TEST(SafetensorsLayout, RefusesMoreThanSixtyFourBitsOfData) {
  const Shape half(1, (std::uint64_t{1} << 63) - 1);
  const std::vector<TensorSpec> specs = {spec("a", DType::uint8, half), spec("b", DType::uint8, half),
                                         spec("c", DType::uint8, half)};

  EXPECT_THAT([&] { static_cast<void>(plan_safetensors(specs)); },
              Fails(Errc::invalid_argument, HasSubstr("2^64")));
}

TEST(SafetensorsLayout, RefusesAHeaderAboveTheLimitAndNamesIt) {
  SafetensorsOptions options;
  options.max_header_bytes = 4000;
  const std::vector<TensorSpec> specs = {spec("w", DType::uint8, {1})};

  EXPECT_THAT([&] { static_cast<void>(plan_safetensors(specs, options)); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("4088"), HasSubstr("4000"))));
}

struct BadSpec {
  const char* name;
  TensorSpec spec;
  const char* message;
};

class SafetensorsLayoutBadSpec : public ::testing::TestWithParam<BadSpec> {};

TEST_P(SafetensorsLayoutBadSpec, IsRefused) {
  const std::vector<TensorSpec> specs = {GetParam().spec};

  EXPECT_THAT([&] { static_cast<void>(plan_safetensors(specs)); },
              Fails(Errc::invalid_argument, HasSubstr(GetParam().message)));
}

TensorSpec with_one_offset() {
  static constexpr std::array<std::uint64_t, 1> kOffsets = {0};
  TensorSpec bad = spec("w", DType::uint8, {1, 1});
  bad.saved_offsets = kOffsets;
  return bad;
}

INSTANTIATE_TEST_SUITE_P(
    Specs, SafetensorsLayoutBadSpec,
    ::testing::Values(
        BadSpec{"NameIsNoUtf8", spec("\xFF", DType::uint8, {1}), "UTF-8"},
        BadSpec{"NameIsReserved", spec("__metadata__", DType::uint8, {1}), "keeps this name"},
        BadSpec{"SizeOverflows", spec("w", DType::float64, {1ull << 32, 1ull << 32}), "whole number"},
        BadSpec{"SizeIsHalfAByte", spec("w", DType::float4, {1}), "whole number"},
        BadSpec{"OffsetsDoNotFitTheShape", with_one_offset(), "1 saved offsets for shape [1, 1]"}),
    [](const auto& test) { return test.param.name; });

TEST(SafetensorsFiles, AreAtLeastOne) {
  EXPECT_EQ(plan_safetensors_files({}).size(), 1u);
}

TEST(SafetensorsFiles, HoldNoMoreTensorsThanAllowed) {
  const std::vector<TensorSpec> specs = {spec("a", DType::uint8, {1}), spec("b", DType::uint8, {2}),
                                         spec("c", DType::uint8, {3})};
  SafetensorsOptions options;
  options.max_tensors_per_file = 2;

  const auto layouts = plan_safetensors_files(specs, options);

  ASSERT_EQ(layouts.size(), 2u);
  EXPECT_THAT(names_of(read_back(layouts[0])), ElementsAre("a", "b"));
  EXPECT_THAT(names_of(read_back(layouts[1])), ElementsAre("c"));
  EXPECT_EQ(layouts[1].first_spec, 2u);
}

TEST(SafetensorsFiles, KeepTheirHeadersBelowTheLimit) {
  Names names;
  for (int i = 0; i < 1000; ++i) {
    names.push_back(fmt::format("layers.{}\n\"\\", i));
  }
  const std::array<std::uint64_t, 1> offsets = {1'000'000'000};
  std::vector<TensorSpec> specs;
  for (const std::string& name : names) {
    specs.push_back(spec(name, DType::uint8, {1}));
    specs.back().saved_offsets = offsets;
  }
  SafetensorsOptions options;
  options.max_header_bytes = 20'000;

  const auto layouts = plan_safetensors_files(specs, options);

  std::size_t tensors = 0;
  for (const SafetensorsLayout& layout : layouts) {
    EXPECT_LE(layout.header.size() - 8, 20'000u);
    tensors += read_back(layout).tensors.size();
  }
  EXPECT_EQ(tensors, 1000u);
  EXPECT_GT(layouts.size(), 5u);
}

TEST(SafetensorsFiles, LieTheSameWhenPlannedFromMeasures) {
  const std::vector<TensorSpec> specs = {
      spec("a", DType::float32, {1024}), spec("\"b\"\n", DType::int8, {3, 0}),
      spec("é", DType::float4, {2}),     spec("d", DType::int64, {}),
      spec("e", DType::uint8, {4096}),   spec("f", DType::boolean, {99999})};
  SafetensorsOptions options;
  options.metadata = {{"who", "me"}};
  options.max_tensors_per_file = 4;
  const std::vector<SafetensorsLayout> expected = plan_safetensors_files(specs, options);
  std::vector<TensorMeasure> measures;
  for (const TensorSpec& one : specs) {
    measures.push_back(measure_tensor(one));
  }

  const std::vector<SafetensorsLayout> layouts = plan_measured_safetensors(measures, options);

  ASSERT_EQ(layouts.size(), expected.size());
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    EXPECT_EQ(layouts[i].first_spec, expected[i].first_spec);
    EXPECT_EQ(layouts[i].header_bytes, expected[i].header.size());
    EXPECT_EQ(layouts[i].offsets, expected[i].offsets);
    EXPECT_EQ(layouts[i].order, expected[i].order);
    EXPECT_EQ(layouts[i].file_size, expected[i].file_size);
  }
}

TEST(SafetensorsFiles, RefuseMeasuresThatExceedTheLargestFile) {
  TensorMeasure measure;
  measure.size_bytes = std::uint64_t{1} << 63;
  const std::vector<TensorMeasure> measures(2, measure);

  EXPECT_THAT([&] { static_cast<void>(plan_measured_safetensors(measures)); },
              Fails(Errc::invalid_argument, HasSubstr("2^64")));
}

TEST(SafetensorsFiles, RefuseATensorWhoseNameAloneIsTooLong) {
  const std::string name(20'000, 'n');
  const std::vector<TensorSpec> specs = {spec("a", DType::uint8, {1}), spec(name, DType::uint8, {1})};
  SafetensorsOptions options;
  options.max_header_bytes = 10'000;

  EXPECT_THAT([&] { static_cast<void>(plan_safetensors_files(specs, options)); },
              Fails(Errc::invalid_argument, HasSubstr("limit")));
}

}  // namespace
}  // namespace cairn::formats
