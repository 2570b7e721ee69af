// SPDX-License-Identifier: Apache-2.0
#include "cairn/staging/pieces.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "support/fails.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(Bytes bytes) : bytes_(std::move(bytes)) {}
  void read(std::uint64_t offset_bytes, std::span<std::byte> out) const override {
    ASSERT_LE(offset_bytes + out.size(), bytes_.size());
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset_bytes), out.size(), out.begin());
  }

 private:
  Bytes bytes_;
};

class MemorySink final : public ByteSink {
 public:
  explicit MemorySink(std::size_t size) : bytes(size) {}
  void write(std::uint64_t offset_bytes, std::span<const std::byte> in) override {
    ASSERT_LE(offset_bytes + in.size(), bytes.size());
    std::copy(in.begin(), in.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset_bytes));
  }

  Bytes bytes;
};

SourcePiece source_at(std::uint64_t offset, std::uint64_t size, const std::byte* data = nullptr) {
  SourcePiece piece;
  piece.offset_bytes = offset;
  piece.size_bytes = size;
  piece.data = data;
  return piece;
}

DestinationPiece destination_at(std::uint64_t offset, std::uint64_t size, std::byte* data = nullptr) {
  DestinationPiece piece;
  piece.offset_bytes = offset;
  piece.size_bytes = size;
  piece.data = data;
  return piece;
}

/// A file of random pieces with gaps, some in memory and some behind a source, and what it must look like.
struct RandomFile {
  explicit RandomFile(unsigned seed) : random(seed), expected(1 + random() % 300) {
    std::uint64_t at = 0;
    while (true) {
      at += random() % 3 == 0 ? random() % 20 : 0;
      const std::uint64_t size = random() % 40;
      if (at + size > expected.size()) {
        break;
      }
      auto bytes = std::make_shared<Bytes>(size);
      std::generate(bytes->begin(), bytes->end(), [this] { return static_cast<std::byte>(random()); });
      std::copy(bytes->begin(), bytes->end(), expected.begin() + static_cast<std::ptrdiff_t>(at));
      SourcePiece piece = source_at(at, size);
      if (random() % 2 == 0) {
        piece.source = std::make_shared<MemorySource>(*bytes);
      } else {
        piece.data = bytes->data();
        piece.owner = bytes;
      }
      if (piece.data != nullptr || piece.source) {
        pieces.push_back(piece);
      }
      at += size;
      if (size == 0 && random() % 4 == 0) {
        break;
      }
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    arrange(pieces, expected.size());
  }

  std::mt19937 random;
  Bytes expected;
  std::vector<SourcePiece> pieces;
};

TEST(PiecesGather, EqualsANaiveFileForRandomPiecesAndRanges) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    RandomFile file(seed);
    for (int i = 0; i < 20; ++i) {
      const std::size_t begin = file.random() % (file.expected.size() + 1);
      const std::size_t size = file.random() % (file.expected.size() - begin + 1);
      Bytes out(size, std::byte{0xEE});

      gather(file.pieces, begin, out);

      ASSERT_TRUE(
          std::equal(out.begin(), out.end(), file.expected.begin() + static_cast<std::ptrdiff_t>(begin)))
          << "seed " << seed << " range " << begin << " + " << size;
    }
  }
}

TEST(PiecesGather, FillsWithZerosWhatNoPieceHas) {
  Bytes out(8, std::byte{1});

  gather({}, 100, out);

  EXPECT_EQ(out, Bytes(8));
}

TEST(PiecesGatherOnto, LeavesWhatNoPieceHas) {
  const Bytes memory(2, std::byte{5});
  const std::vector<SourcePiece> pieces = {source_at(1, 2, memory.data())};
  Bytes out(4, std::byte{9});

  gather_onto(pieces, 0, out);

  EXPECT_EQ(out, (Bytes{std::byte{9}, std::byte{5}, std::byte{5}, std::byte{9}}));
}

TEST(PiecesGather, AcceptsAnEmptyRange) {
  std::vector<SourcePiece> pieces;
  pieces.push_back(source_at(0, 4, Bytes(4).data()));

  EXPECT_NO_THROW(gather(pieces, 2, {}));
}

TEST(PiecesGather, PassesOnWhatASourceThrows) {
  class Broken final : public ByteSource {
    void read(std::uint64_t, std::span<std::byte>) const override {
      throw Error(Errc::device_failure, "gpu");
    }
  };
  std::vector<SourcePiece> pieces;
  pieces.push_back(source_at(0, 4));
  pieces.back().source = std::make_shared<Broken>();
  Bytes out(4);

  EXPECT_THAT([&] { gather(pieces, 0, out); }, Fails(Errc::device_failure, HasSubstr("gpu")));
}

TEST(PiecesScatter, UndoesGatherWhateverTheRanges) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    RandomFile file(seed);
    std::vector<DestinationPiece> pieces;
    std::vector<std::shared_ptr<Bytes>> memories;
    std::vector<std::shared_ptr<MemorySink>> sinks;
    for (const SourcePiece& from : file.pieces) {
      memories.push_back(std::make_shared<Bytes>(from.size_bytes));
      sinks.push_back(std::make_shared<MemorySink>(from.size_bytes));
      pieces.push_back(destination_at(from.offset_bytes, from.size_bytes));
      if (file.random() % 2 == 0) {
        pieces.back().data = memories.back()->data();
      } else {
        pieces.back().sink = sinks.back();
      }
    }
    arrange(pieces, file.expected.size());

    for (std::size_t begin = 0; begin < file.expected.size();) {
      const std::size_t size = std::min<std::size_t>(file.random() % 50, file.expected.size() - begin);
      scatter(pieces, begin, std::span<const std::byte>(file.expected).subspan(begin, size));
      begin += size;
    }

    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Bytes& taken = pieces[i].data != nullptr ? *memories[i] : sinks[i]->bytes;
      ASSERT_TRUE(std::equal(taken.begin(), taken.end(),
                             file.expected.begin() + static_cast<std::ptrdiff_t>(pieces[i].offset_bytes)))
          << "seed " << seed << " piece " << i;
    }
  }
}

TEST(PiecesArrange, SortsByOffsetAndDropsEmptyPieces) {
  std::vector<SourcePiece> pieces;
  pieces.push_back(source_at(8, 2));
  pieces.push_back(source_at(4, 0));
  pieces.push_back(source_at(0, 8));

  arrange(pieces, 10);

  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].offset_bytes, 0U);
  EXPECT_EQ(pieces[1].offset_bytes, 8U);
}

TEST(PiecesArrange, RefusesPiecesThatOverlap) {
  std::vector<SourcePiece> pieces;
  pieces.push_back(source_at(4, 4));
  pieces.push_back(source_at(0, 5));

  EXPECT_THAT([&] { arrange(pieces, 10); }, Fails(Errc::invalid_argument, HasSubstr("overlap at byte 4")));
}

TEST(PiecesArrange, RefusesAPieceThatBeginsOrEndsBeyondTheFile) {
  std::vector<DestinationPiece> begins;
  begins.push_back(destination_at(11, 1));
  std::vector<DestinationPiece> ends;
  ends.push_back(destination_at(4, 7));

  EXPECT_THAT([&] { arrange(begins, 10); }, Fails(Errc::invalid_argument, HasSubstr("1 bytes at 11")));
  EXPECT_THAT([&] { arrange(ends, 10); }, Fails(Errc::invalid_argument, HasSubstr("7 bytes at 4")));
}

TEST(PiecesArrange, RefusesAPieceWhoseEndDoesNotFitInSixtyFourBits) {
  std::vector<SourcePiece> pieces;
  pieces.push_back(source_at(kMax - 1, kMax));

  EXPECT_THAT([&] { arrange(pieces, kMax); }, Fails(Errc::invalid_argument, HasSubstr("beyond a file")));
}

class PiecesContiguous : public ::testing::Test {
 protected:
  void SetUp() override {
    pieces_.push_back(source_at(0, 8, memory_.data()));
    pieces_.push_back(source_at(8, 8, memory_.data() + 8));
    pieces_.push_back(source_at(20, 4));
    pieces_.back().source = std::make_shared<MemorySource>(Bytes(4));
    arrange(pieces_, 30);
  }

  Bytes memory_ = Bytes(16);
  std::vector<SourcePiece> pieces_;
};

TEST_F(PiecesContiguous, FindsTheMemoryOfARangeWithinOnePiece) {
  EXPECT_EQ(contiguous(pieces_, 0, 8), memory_.data());
  EXPECT_EQ(contiguous(pieces_, 10, 3), memory_.data() + 10);
}

TEST_F(PiecesContiguous, IsNullAcrossPiecesAndGaps) {
  EXPECT_EQ(contiguous(pieces_, 7, 2), nullptr);
  EXPECT_EQ(contiguous(pieces_, 15, 2), nullptr);
  EXPECT_EQ(contiguous(pieces_, 16, 2), nullptr);
}

TEST_F(PiecesContiguous, IsNullForWhatIsNotInMemory) {
  EXPECT_EQ(contiguous(pieces_, 20, 4), nullptr);
}

TEST_F(PiecesContiguous, IsNullForAnEmptyRange) {
  EXPECT_EQ(contiguous(pieces_, 4, 0), nullptr);
}

TEST_F(PiecesContiguous, WorksForDestinations) {
  std::vector<DestinationPiece> pieces;
  pieces.push_back(destination_at(4, 8, memory_.data()));

  EXPECT_EQ(contiguous(pieces, 6, 2), memory_.data() + 2);
}

}  // namespace
}  // namespace cairn
