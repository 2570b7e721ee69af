// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/safetensors_layout.hpp"

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "formats/fixtures.hpp"
#include "support/fails.hpp"

namespace cairn::formats {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::Pair;

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

/// A file that is planned, with its header.
struct Planned : SafetensorsLayout {
  std::string header;
};

std::vector<Planned> plan_all(std::span<const TensorSpec> specs,
                              std::uint64_t max_header_bytes = kMaxSafetensorsHeaderBytes) {
  std::vector<TensorMeasure> measures;
  for (const TensorSpec& one : specs) {
    measures.push_back(measure_tensor(one));
  }
  std::vector<Planned> files;
  for (SafetensorsLayout& layout : plan_safetensors(measures, max_header_bytes)) {
    std::string header(safetensors_header(specs.subspan(layout.first_spec, layout.offsets.size()), layout));
    files.push_back({std::move(layout), std::move(header)});
  }
  return files;
}

Planned plan(std::span<const TensorSpec> specs) {
  return plan_all(specs).at(0);
}

SafetensorsHeader read_back(const Planned& file) {
  return parse_safetensors(as_bytes(file.header), file.file_size, "f");
}

Names names_of(const SafetensorsHeader& header) {
  Names names;
  for (const SafetensorsTensor& tensor : header.tensors) {
    names.push_back(tensor.name);
  }
  return names;
}

TEST(SafetensorsLayout, SaysWhereSlicesBegin) {
  std::vector<TensorSpec> specs = {spec("b", DType::bfloat16, {3}),
                                   spec(R"(q"~s1)", DType::float32, {2, 1024})};
  specs[1].offsets = lasting({4, 0});
  std::vector<TensorMeasure> measures;
  for (const TensorSpec& one : specs) {
    measures.push_back(measure_tensor(one));
    measures.back().header_bytes += static_cast<std::uint32_t>(offset_entry_bytes(one));
  }

  const SafetensorsLayout layout = plan_safetensors(measures, kMaxSafetensorsHeaderBytes, true).at(0);
  const std::string text(safetensors_header(specs, layout));

  EXPECT_EQ(text.size(), layout.header_bytes);
  const SafetensorsHeader header = parse_safetensors(as_bytes(text), layout.file_size, "f");
  EXPECT_EQ(*header.find_metadata("DCP_VERSION"), "1.0");
  EXPECT_EQ(*header.find_metadata("DCP_SHARDING_INFO"),
            R"({"q\"~s1": {"saved_offsets": [4, 0]}, "b": {"saved_offsets": [0]}})");
}

TEST(SafetensorsLayout, DoesNotSayWhereFurtherSlicesBegin) {
  std::vector<TensorSpec> specs = {spec("a~s1", DType::float64, {2}), spec("a", DType::float32, {2}),
                                   spec("b", DType::bfloat16, {3})};
  specs[0].offsets = lasting({4});
  specs[0].is_further = true;
  specs[1].offsets = lasting({2});
  std::vector<TensorMeasure> measures;
  for (const TensorSpec& one : specs) {
    measures.push_back(measure_tensor(one));
    measures.back().header_bytes += static_cast<std::uint32_t>(offset_entry_bytes(one));
  }

  const SafetensorsLayout layout = plan_safetensors(measures, kMaxSafetensorsHeaderBytes, true).at(0);
  const std::string text(safetensors_header(specs, layout));

  EXPECT_EQ(offset_entry_bytes(specs[0]), 0u);
  EXPECT_EQ(*parse_safetensors(as_bytes(text), layout.file_size, "f").find_metadata("DCP_SHARDING_INFO"),
            R"({"a": {"saved_offsets": [2]}, "b": {"saved_offsets": [0]}})");
}

TEST(SafetensorsLayout, HasComplexNumbersAsPairsAlongOneMoreAxis) {
  std::vector<TensorSpec> specs = {spec("d", DType::float64, {1}), spec("z", DType::complex128, {2, 3}),
                                   spec("one", DType::complex128, {})};
  specs[1].offsets = lasting({4, 0});
  std::vector<TensorMeasure> measures;
  for (const TensorSpec& one : specs) {
    measures.push_back(measure_tensor(one));
    measures.back().header_bytes += static_cast<std::uint32_t>(offset_entry_bytes(one));
  }

  const SafetensorsLayout layout = plan_safetensors(measures, kMaxSafetensorsHeaderBytes, true).at(0);
  const std::string text(safetensors_header(specs, layout));
  const SafetensorsHeader header = parse_safetensors(as_bytes(text), layout.file_size, "f");

  EXPECT_THAT(names_of(header), ElementsAre("z", "one", "d"));  // Each number at a multiple of its 16 bytes.
  EXPECT_EQ(header.tensors[0].dtype, DType::float64);
  EXPECT_EQ(header.tensors[0].shape, (Shape{2, 3, 2}));
  EXPECT_EQ(header.tensors[1].shape, (Shape{2}));
  EXPECT_EQ(
      *header.find_metadata("DCP_SHARDING_INFO"),
      R"({"z": {"saved_offsets": [4, 0, 0]}, "one": {"saved_offsets": [0]}, "d": {"saved_offsets": [0]}})");
}

TEST(SafetensorsLayout, CountsEveryByteOfWhereSlicesBegin) {
  // Names of all lengths, so that one of the headers just fits its pages.
  for (std::size_t length = 1; length < 700; ++length) {
    const std::string name(length, '"');
    TensorSpec one = spec(name, DType::int8, {1});
    one.offsets = lasting({9});
    TensorMeasure measure = measure_tensor(one);
    measure.header_bytes += static_cast<std::uint32_t>(offset_entry_bytes(one));
    const SafetensorsLayout layout = plan_safetensors({&measure, 1}, kMaxSafetensorsHeaderBytes, true).at(0);

    const std::string text(safetensors_header({&one, 1}, layout));

    ASSERT_EQ(text.size(), layout.header_bytes) << length;
    ASSERT_EQ(parse_safetensors(as_bytes(text), layout.file_size, "f").tensors.size(), 1u) << length;
  }
}

TEST(SafetensorsLayout, StartsDataAtAPage) {
  const std::vector<TensorSpec> specs = {spec("w", DType::float32, {3})};

  const Planned layout = plan(specs);

  EXPECT_EQ(layout.header.size(), 4096u);
  EXPECT_EQ(layout.header.back(), ' ');
  EXPECT_EQ(layout.file_size, 4096u + 12);
}

TEST(SafetensorsLayout, HasTheSameHeaderByteForByte) {
  const std::vector<TensorSpec> specs = {spec("params/b", DType::bfloat16, {3}),
                                         spec("params/w", DType::float32, {2, 1024})};

  std::string expected(R"({"__metadata__":{"format":"pt"},)"
                       R"("params/w":{"dtype":"F32","shape":[2,1024],"data_offsets":[0,8192]},)"
                       R"("params/b":{"dtype":"BF16","shape":[3],"data_offsets":[8192,8198]}})");
  expected.resize(4088, ' ');
  EXPECT_EQ(plan(specs).header, std::string("\xF8\x0F\0\0\0\0\0\0", 8) + expected);
}

TEST(SafetensorsLayout, ReadsBackAsItWasAsked) {
  const std::vector<TensorSpec> specs = {spec("a/b", DType::float32, {2, 3}),
                                         spec("é\"\\\n", DType::boolean, {}),
                                         spec("", DType::complex64, {1, 0})};

  const Planned layout = plan(specs);

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

  const Planned layout = plan(specs);

  EXPECT_THAT(names_of(read_back(layout)), ElementsAre("p1", "p2", "small", "odd"));
  EXPECT_EQ(layout.offsets[1] % 4096, 0u);
  EXPECT_EQ(layout.offsets[3] % 4096, 0u);
}

TEST(SafetensorsLayout, PutsTheRestByFallingElementSizeInTheOrderGiven) {
  const std::vector<TensorSpec> specs = {spec("b1", DType::uint8, {3}),  spec("h1", DType::bfloat16, {1}),
                                         spec("d", DType::int64, {1}),   spec("b2", DType::boolean, {1}),
                                         spec("f", DType::float32, {1}), spec("n", DType::float4, {2}),
                                         spec("h2", DType::float16, {1})};

  const Planned layout = plan(specs);

  EXPECT_THAT(names_of(read_back(layout)), ElementsAre("d", "f", "h1", "h2", "b1", "b2", "n"));
  EXPECT_EQ(layout.offsets[1] % 2, 0u);
}

TEST(SafetensorsLayout, ReadsBackNamesWithAnyCharacterAnywhere) {
  for (const char special : {'\0', '\n', '\x1f', ' ', '"', '\\', '\x7f'}) {
    for (std::size_t at = 0; at < 20; ++at) {
      std::string name(20, 'n');
      name[at] = special;
      const std::vector<TensorSpec> specs = {spec(name, DType::uint8, {10})};

      ASSERT_THAT(names_of(read_back(plan(specs))), ElementsAre(name))
          << static_cast<int>(special) << " at " << at;
    }
  }
}

TEST(SafetensorsLayout, CountsTheBytesOfItsHeaderForNamesOfAnyLength) {
  for (std::size_t escapes = 3900; escapes < 4100; ++escapes) {
    const std::string name = std::string(escapes, 'n') + "\x02\n\"";
    const std::vector<TensorSpec> specs = {spec(name, DType::uint8, {10})};

    const Planned layout = plan(specs);

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

        const Planned layout = plan(specs);

        const std::size_t json_end = layout.header.find_last_not_of(' ');
        ASSERT_EQ(layout.header[json_end], '}') << extent << ", " << length;
        ASSERT_LT(layout.header_bytes - (json_end + 1), 4096u) << extent << ", " << length;
      }
    }
  }
}

TEST(SafetensorsLayout, OfNoTensorsIsAFileThatOpens) {
  const Planned layout = plan({});

  EXPECT_EQ(layout.file_size, 4096u);
  EXPECT_THAT(read_back(layout).metadata, ElementsAre(Pair("format", "pt")));
}

TEST(SafetensorsLayout, RefusesMoreThanSixtyFourBitsOfData) {
  const Shape half(1, (std::uint64_t{1} << 63) - 1);
  const std::vector<TensorSpec> specs = {spec("a", DType::uint8, half), spec("b", DType::uint8, half),
                                         spec("c", DType::uint8, half)};

  EXPECT_THAT([&] { plan(specs); }, Fails(Errc::invalid_argument, HasSubstr("2^64")));
}

TEST(SafetensorsLayout, RefusesAHeaderAboveTheLimitAndNamesIt) {
  const std::vector<TensorSpec> specs = {spec("w", DType::uint8, {1})};

  EXPECT_THAT([&] { plan_all(specs, 4000); },
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

  EXPECT_THAT([&] { plan(specs); }, Fails(Errc::invalid_argument, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Specs, SafetensorsLayoutBadSpec,
    ::testing::Values(BadSpec{"NameIsNoUtf8", spec("\xFF", DType::uint8, {1}), "UTF-8"},
                      BadSpec{"NameIsReserved", spec("__metadata__", DType::uint8, {1}), "keeps this name"},
                      BadSpec{"SizeOverflows", spec("w", DType::float64, {1ull << 32, 1ull << 32}),
                              "whole number"},
                      BadSpec{"SizeIsHalfAByte", spec("w", DType::float4, {1}), "whole number"}),
    [](const auto& test) { return test.param.name; });

TEST(SafetensorsFiles, AreAtLeastOne) {
  EXPECT_EQ(plan_all({}).size(), 1u);
}

TEST(SafetensorsFiles, KeepTheirHeadersBelowTheLimit) {
  Names names;
  for (int i = 0; i < 1000; ++i) {
    names.push_back(fmt::format("layers.{}\n\"\\", i));
  }
  std::vector<TensorSpec> specs;
  for (const std::string& name : names) {
    specs.push_back(spec(name, DType::uint8, {1}));
  }

  const std::vector<Planned> files = plan_all(specs, 20'000);

  Names found;
  for (const Planned& file : files) {
    EXPECT_LE(file.header.size() - 8, 20'000u);
    EXPECT_EQ(file.first_spec, found.size());
    for (std::string& name : names_of(read_back(file))) {
      found.push_back(std::move(name));
    }
  }
  EXPECT_EQ(found, names);
  EXPECT_GT(files.size(), 3u);
}

TEST(SafetensorsFiles, RefuseMeasuresThatExceedTheLargestFile) {
  TensorMeasure measure;
  measure.size_bytes = std::uint64_t{1} << 63;
  const std::vector<TensorMeasure> measures(2, measure);

  EXPECT_THAT([&] { static_cast<void>(plan_safetensors(measures)); },
              Fails(Errc::invalid_argument, HasSubstr("2^64")));
}

TEST(SafetensorsFiles, RefuseATensorWhoseNameAloneIsTooLong) {
  const std::string name(20'000, 'n');
  const std::vector<TensorSpec> specs = {spec("a", DType::uint8, {1}), spec(name, DType::uint8, {1})};

  EXPECT_THAT([&] { plan_all(specs, 10'000); }, Fails(Errc::invalid_argument, HasSubstr("limit")));
}

}  // namespace
}  // namespace cairn::formats
