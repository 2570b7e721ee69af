// SPDX-License-Identifier: Apache-2.0
// Bytes of slices that are encoded.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/formats/foreign_catalogue.hpp"

#include "formats/fixtures.hpp"
#include "formats/internal/foreign_index.hpp"
#include "formats/internal/zip.hpp"
#include "formats/internal/zstd.hpp"
#include "support/fails.hpp"
#include "support/torch_files.hpp"

namespace cairn::formats {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;

/// A frame of zstd that has the bytes as they are, or, with `repeats`, one byte so often.
std::string zstd_frame(std::string_view bytes, std::uint32_t repeats = 0) {
  const auto size = static_cast<std::uint32_t>(repeats == 0 ? bytes.size() : repeats);
  std::string frame("\x28\xb5\x2f\xfd\xa0", 5);  // One segment, whose size has four bytes.
  frame.append(reinterpret_cast<const char*>(&size), 4);
  constexpr std::uint32_t kMostBlock = 128 << 10;
  for (std::uint32_t done = 0; done < size || done == 0;) {
    const std::uint32_t block = std::min(kMostBlock, size - done);
    const std::uint32_t head =
        (done + block == size ? 1u : 0u) | (repeats == 0 ? 0u : 2u) | block << 3;  // Last, kind, size.
    frame.append(reinterpret_cast<const char*>(&head), 3);
    frame += repeats == 0 ? std::string(bytes.substr(done, block)) : std::string(bytes);
    done += block;
    if (size == 0) {
      break;
    }
  }
  return frame;
}

/// An archive of a tensor.
std::string archive_of(DType dtype, const Shape& shape, std::string_view elements) {
  std::ostringstream out;
  testing::write_torch_tensor(out, {"", dtype, shape}, elements);
  return out.str();
}

EncodedSlice slice_of(const Shape& extents, std::vector<std::string> codecs) {
  EncodedSlice slice;
  slice.form.codecs = std::move(codecs);
  slice.dtype = DType::float32;
  slice.extents = extents;
  slice.elements = element_count(extents).value();
  slice.needed_bytes = 4 * slice.elements;
  slice.name = "f: 'w'";
  return slice;
}

std::string decoded(std::string_view bytes, const EncodedSlice& slice) {
  std::vector<std::byte> memory;
  const std::span<const std::byte> found = decode(as_bytes(bytes), slice, memory);
  return {reinterpret_cast<const char*>(found.data()), found.size()};
}

const std::string kElements = "abcdefghijklmnopqrstuvwx";
const std::string kZstd(kZstdCodec);
const std::string kArchive(kTorchArchiveCodec);

TEST(Decode, TakesATensorOutOfItsArchive) {
  const std::string archive = archive_of(DType::float32, {2, 3}, kElements);

  EXPECT_EQ(decoded(archive, slice_of({2, 3}, {kArchive})), kElements);
}

TEST(Decode, TakesAPartOfATensor) {
  EncodedSlice slice = slice_of({1, 2}, {kArchive});
  slice.first = 3;
  slice.elements = 6;

  EXPECT_EQ(decoded(archive_of(DType::float32, {6}, kElements), slice).substr(0, 8), kElements.substr(12, 8));
}

TEST(Decode, RefusesArchivesOfOtherTensors) {
  const EncodedSlice slice = slice_of({2, 3}, {kArchive});
  EXPECT_THAT(
      [&] {
        decoded(archive_of(DType::float32, {3, 2}, kElements), slice);
      },
      Fails(Errc::malformed_metadata, AllOf(HasSubstr("f: 'w'"), HasSubstr("[3, 2]"))));
  EXPECT_THAT([&] { decoded(archive_of(DType::int64, {3}, kElements), slice); },
              Fails(Errc::malformed_metadata, HasSubstr("lies in its place")));
  EXPECT_THAT([&] { decoded("PK", slice); }, Fails(Errc::malformed_metadata, HasSubstr("f: 'w'")));
}

TEST(Decode, ComparesTheSumOfATensor) {
  if (!can_compute_crc32()) {
    GTEST_SKIP() << "without CRC-32";
  }
  std::string archive = archive_of(DType::float32, {2, 3}, kElements);
  archive[archive.find(kElements)] = 'A';

  EXPECT_THAT(
      [&] {
        decoded(archive, slice_of({2, 3}, {kArchive}));
      },
      Fails(Errc::checksum_mismatch, HasSubstr("f: 'w'")));
}

class DecodeZstd : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_read_zstd()) {
      GTEST_SKIP() << "without zstd";
    }
  }
};

TEST_F(DecodeZstd, UnpacksFramesOneAfterTheOther) {
  const std::string packed = zstd_frame(kElements.substr(0, 10)) + zstd_frame(kElements.substr(10));

  EXPECT_EQ(decoded(packed, slice_of({2, 3}, {kZstd})), kElements);
}

TEST_F(DecodeZstd, UnpacksArchives) {
  const std::string packed = zstd_frame(archive_of(DType::float32, {2, 3}, kElements));

  EXPECT_EQ(decoded(packed, slice_of({2, 3}, {kZstd, kArchive})), kElements);
}

TEST_F(DecodeZstd, RefusesWhatIsCutOrChanged) {
  const EncodedSlice slice = slice_of({2, 3}, {kZstd});
  const std::string packed = zstd_frame(kElements);
  for (std::size_t bytes = 0; bytes < packed.size(); ++bytes) {
    EXPECT_THAT([&] { decoded(packed.substr(0, bytes), slice); },
                Fails(Errc::malformed_metadata, HasSubstr("f: 'w'")));
  }
  EXPECT_THAT([&] { decoded("PK" + packed, slice); }, Fails(Errc::malformed_metadata, HasSubstr("zstd")));
}

TEST_F(DecodeZstd, UnpacksNoMoreThanElementsAskFor) {
  EXPECT_THAT(
      [&] {
        decoded(zstd_frame("x", 1u << 22), slice_of({2, 3}, {kZstd}));
      },
      Fails(Errc::malformed_metadata, HasSubstr("bytes that were expected")));
}

TEST(DecodeWithoutZstd, NamesThePackage) {
  if (can_read_zstd()) {
    GTEST_SKIP() << "with zstd";
  }
  EXPECT_THAT(
      [] {
        check_codecs({std::nullopt, false, {kZstd}}, "w");
      },
      Fails(Errc::feature_missing, HasSubstr("libzstd-dev")));
}

}  // namespace
}  // namespace cairn::formats
