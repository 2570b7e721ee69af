// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/torch_writer.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cairn/array/format.hpp"

#include "formats/fixtures.hpp"
#include "formats/foreign/checkpoint_files.hpp"
#include "formats/internal/torch_archive.hpp"
#include "support/fails.hpp"

namespace cairn::formats {
namespace {

using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The parts of a file by where they begin; all else is zeros.
using Parts = std::map<std::uint64_t, std::string>;

Parts rest_of(const TorchArchiveWriter& writer) {
  Parts parts;
  writer.write_rest([&](std::uint64_t begin, std::string_view bytes) { parts.emplace(begin, bytes); });
  return parts;
}

ReadAt sparse_reader_of(const Parts& parts) {
  return [&parts](std::uint64_t begin, std::uint64_t size) {
    std::vector<std::byte> out(static_cast<std::size_t>(size));
    auto part = parts.upper_bound(begin);
    for (part = part == parts.begin() ? part : std::prev(part);
         part != parts.end() && part->first < begin + size; ++part) {
      for (std::size_t i = 0; i < part->second.size(); ++i) {
        if (part->first + i >= begin && part->first + i < begin + size) {
          out[static_cast<std::size_t>(part->first + i - begin)] = static_cast<std::byte>(part->second[i]);
        }
      }
    }
    return out;
  };
}

/// All bytes of an archive with these storages.
std::string write_archive(std::string pickle, const std::vector<std::string>& storages) {
  std::vector<std::uint64_t> sizes;
  for (const std::string& storage : storages) {
    sizes.push_back(storage.size());
  }
  TorchArchiveWriter writer(std::move(pickle), sizes);
  std::string out(static_cast<std::size_t>(writer.size_bytes()), '?');
  for (std::size_t i = 0; i < storages.size(); ++i) {
    writer.add_to_sum(i, as_bytes(storages[i]));
    out.replace(static_cast<std::size_t>(writer.begin_of(i)), storages[i].size(), storages[i]);
  }
  for (const auto& [begin, bytes] : rest_of(writer)) {
    out.replace(static_cast<std::size_t>(begin), bytes.size(), bytes);
  }
  return out;
}

TEST(TorchArchiveWriter, WritesTensorsOfEveryDTypeThatTheReaderReads) {
  PickleWriter pickle;
  std::vector<std::string> storages;
  std::map<std::string, std::string> expected;
  pickle.begin_map();
  for (auto number = static_cast<unsigned>(kFirstDType); number <= static_cast<unsigned>(kLastDType);
       ++number) {
    const auto dtype = static_cast<DType>(number);
    const Shape shape{3, 4};
    if (!why_not_in_torch(dtype, shape).empty()) {
      continue;
    }
    std::string bytes(static_cast<std::size_t>(byte_count(dtype, shape).value()), '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<char>(i % 2);
    }
    pickle.text(name(dtype));
    write_tensor(pickle, dtype, shape, fmt::to_string(storages.size()));
    expected[std::string(name(dtype))] = fmt::format("{} {} {}", name(dtype), shape, sha256(bytes));
    storages.push_back(bytes);
  }
  pickle.end_map();

  const std::string archive = write_archive(std::move(pickle).take(), storages);

  EXPECT_EQ(expected.size(), 21u);  // All but the two of six bits.
  EXPECT_EQ(shown(read_archive(archive), {{"f", archive}}), expected);
}

TEST(TorchArchiveWriter, WritesTensorsWithoutElementsAndWithoutAxes) {
  PickleWriter pickle;
  pickle.begin_list();
  write_tensor(pickle, DType::float32, {0, 4}, "0");
  write_tensor(pickle, DType::int64, {}, "1");
  pickle.end_list();

  const std::string archive = write_archive(std::move(pickle).take(), {"", "12345678"});

  const ForeignCatalogue catalogue = read_archive(archive);
  ASSERT_EQ(catalogue.arrays.size(), 2u);
  EXPECT_EQ(catalogue.arrays[0].shape, (Shape{0, 4}));
  EXPECT_EQ(elements_of(catalogue.arrays[1], catalogue, {{"f", archive}}), "12345678");
}

TEST(TorchArchiveWriter, AlignsStoragesAndSumsMembersUp) {
  const std::string archive = write_archive("\x80\x02N.", {"abc", "defgh"});

  const TorchArchive found = open_torch_archive(reader_of(archive), archive.size(), "f");

  for (const char* name : {"data/0", "data/1"}) {
    ASSERT_NE(found.find(name), nullptr);
    EXPECT_EQ(found.find(name)->begin % 64, 0u);
  }
  EXPECT_EQ(found.find("data/0")->has_sum(), can_compute_crc32());
  if (can_compute_crc32()) {
    EXPECT_EQ(found.find("data/1")->crc32, update_crc32(0, as_bytes("defgh")));
  }
  EXPECT_EQ(archive.substr(static_cast<std::size_t>(found.find("byteorder")->begin), 6), "little");
}

TEST(TorchArchiveWriter, HasNumbersOf64BitsWhereTheyAreNeeded) {
  const std::uint64_t large = std::uint64_t{5} << 30;
  const std::vector<std::uint64_t> sizes = {large, 8, 0xffff'ffffu};
  const TorchArchiveWriter writer("\x80\x02N.", sizes);
  const Parts parts = rest_of(writer);

  const TorchArchive found = open_torch_archive(sparse_reader_of(parts), writer.size_bytes(), "f");

  EXPECT_EQ(found.find("data/0")->size, large);
  EXPECT_EQ(found.find("data/1")->size, 8u);
  EXPECT_EQ(found.find("data/2")->size, 0xffff'ffffu);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(found.find(fmt::format("data/{}", i))->begin, writer.begin_of(i));
  }
}

TEST(TorchArchiveWriter, MayHaveMoreMembersThan16BitsCount) {
  const std::vector<std::uint64_t> sizes(70'000, 0);
  const TorchArchiveWriter writer("\x80\x02N.", sizes);
  const Parts parts = rest_of(writer);

  const ZipDirectory found = read_zip_directory(sparse_reader_of(parts), writer.size_bytes(), "f");

  EXPECT_EQ(found.members.size(), 70'003u);
  EXPECT_NE(found.find("archive/data/69999"), nullptr);
}

TEST(TorchArchiveWriter, RefusesWhatDoesNotFit) {
  const std::vector<std::uint64_t> sizes = {kMaxArchiveBytes, kMaxArchiveBytes};

  EXPECT_THAT([&] { TorchArchiveWriter("\x80\x02N.", sizes); },
              Fails(Errc::invalid_argument, HasSubstr("cannot be written")));
}

TEST(WhyNotInTorch, NamesTypesAndExtentsThatTorchDoesNotHave) {
  EXPECT_THAT(why_not_in_torch(DType::float6_e2m3, {4}), HasSubstr("no dtype for"));
  EXPECT_THAT(why_not_in_torch(DType::float4, {2, 3}), HasSubstr("pairs"));
  EXPECT_THAT(why_not_in_torch(DType::float4, {3, 2}), IsEmpty());
}

}  // namespace
}  // namespace cairn::formats
