// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/shared_reads.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/testing/local_ranks.hpp"

#include "io/internal/chunk_hash.hpp"
#include "io/internal/file.hpp"
#include "joint/internal/joint_load.hpp"
#include "staging/test_plane.hpp"
#include "support/noise.hpp"
#include "support/temp_dir.hpp"

namespace cairn::joint {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Bytes = std::vector<std::byte>;

/// Several chunks for each rank, and a last one that is not whole.
constexpr std::size_t kFileBytes = 6 * io::kChunkBytes + 12'345;

/// What a rank wants of the file.
struct Range {
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

class SharedReadsOfRanks : public ::testing::Test {
 protected:
  static constexpr std::size_t kRanks = 3;
  using Ranges = std::array<Range, kRanks>;

  SharedReadsOfRanks() { write(content_); }

  void write(const Bytes& bytes) const {
    testing::write_text(directory_ / "data", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

  /// Has each rank read its range. Returns what they threw, a line for each rank that did.
  std::string read(const Ranges& ranges) {
    return testing::failures_on_ranks(kRanks, [&](const std::shared_ptr<Coordinator>& coordinator) {
      const std::unique_ptr<JointLoad> load = JointLoad::join(*coordinator);
      try {
        read(ranges[coordinator->rank()], *load, coordinator->rank());
      } catch (...) {
        load->fail(std::current_exception());
        throw;
      }
    });
  }

  [[nodiscard]] Bytes content(const Range& range) const {
    const auto begin = content_.begin() + static_cast<std::ptrdiff_t>(range.begin);
    return {begin, begin + static_cast<std::ptrdiff_t>(range.bytes)};
  }

  Bytes content_ = testing::noise(kFileBytes);
  std::array<Bytes, kRanks> found_;                    // By each rank.
  std::array<std::uint64_t, kRanks> bytes_read_ = {};  // From the file.

 private:
  void read(const Range& range, JointLoad& load, std::size_t rank) {
    const staging::TestPlane test;
    io::Syscalls& syscalls = test.plane->engine.syscalls();
    const io::Directory directory = io::Directory::open(syscalls, directory_.path());
    const SharedReads::Files files = [&](const std::string& name) {
      staging::FileToRead file;
      file.name = name;
      file.path = directory_ / name;
      file.size_bytes = kFileBytes;
      file.open = [&directory, name](int flags) { return directory.open_file(name, flags); };
      file.digest = [this] { return digest(); };
      return file;
    };
    found_[rank].resize(range.bytes);
    PiecesByFile pieces;
    if (range.bytes > 0) {
      DestinationPiece piece;
      piece.offset_bytes = range.begin;
      piece.size_bytes = range.bytes;
      piece.data = found_[rank].data();
      pieces["data"].push_back(std::move(piece));
    }
    SharedReads reads(*test.plane, load.about("reads"), files, std::move(pieces));
    test.run(reads.read());
    test.run(load.end());
    bytes_read_[rank] = test.plane->read_bytes;
  }

  [[nodiscard]] std::optional<io::FileDigest> digest() const {
    io::ChunkHasher hasher;
    hasher.update(content_);
    return hasher.finish("data");
  }

  testing::TempDir directory_;
};

TEST_F(SharedReadsOfRanks, ReadEachByteOnceForAllWhoWantIt) {
  const Range all{0, kFileBytes};

  EXPECT_THAT(read({all, all, all}), IsEmpty());

  EXPECT_TRUE(found_[0] == content_ && found_[1] == content_ && found_[2] == content_);
  EXPECT_EQ(bytes_read_[0] + bytes_read_[1] + bytes_read_[2], kFileBytes);
  EXPECT_THAT(bytes_read_, Each(Gt(0U)));
}

TEST_F(SharedReadsOfRanks, GiveEachRankTheRangeThatItWants) {
  const Ranges ranges = {Range{100, 4 * io::kChunkBytes}, {3 * io::kChunkBytes + 7, 3'000'000}, {}};

  EXPECT_THAT(read(ranges), IsEmpty());

  EXPECT_TRUE(found_[0] == content(ranges[0]) && found_[1] == content(ranges[1]));
  EXPECT_EQ(bytes_read_[2], 0U);
}

TEST_F(SharedReadsOfRanks, FailOnAllWhereOneHasReadDamagedBytes) {
  Bytes damaged = content_;
  damaged[kFileBytes - 1] ^= std::byte{1};
  write(damaged);
  const Range all{0, kFileBytes};

  const std::string failures = read({all, all, all});

  EXPECT_EQ(std::count(failures.begin(), failures.end(), '\n'), 3) << failures;
  EXPECT_THAT(failures, AllOf(HasSubstr("checksum mismatch"), HasSubstr("peer failed")));
}

}  // namespace
}  // namespace cairn::joint
