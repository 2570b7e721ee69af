// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/shared_reads.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/observe/report.hpp"
#include "cairn/testing/local_ranks.hpp"

#include "base/internal/packed.hpp"
#include "base/internal/rank_groups.hpp"
#include "io/internal/chunk_hash.hpp"
#include "io/internal/disk_file.hpp"
#include "io/internal/file.hpp"
#include "io/internal/shared_memory.hpp"
#include "joint/internal/joint_load.hpp"
#include "joint/internal/shared_plan.hpp"
#include "staging/test_plane.hpp"
#include "support/noise.hpp"
#include "support/temp_dir.hpp"

namespace cairn::joint {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

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

  /// What a rank does in place of reading its range.
  using Act = std::function<void(JointLoad& load)>;

  /// Has each rank read its range, but for those that have something else to do. Returns what they threw, a line for
  /// each rank that did.
  std::string read(const Ranges& ranges, const std::map<std::size_t, Act>& acts = {}) {
    return testing::failures_on_ranks(job_, [&](const std::shared_ptr<coord::Coordinator>& coordinator) {
      const std::unique_ptr<JointLoad> load = JointLoad::join(*coordinator);
      try {
        const auto act = acts.find(coordinator->rank());
        if (act != acts.end()) {
          act->second(*load);
        } else {
          read(ranges[coordinator->rank()], *load, *coordinator);
        }
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

  [[nodiscard]] std::uint64_t sent_bytes() const {
    std::uint64_t bytes = 0;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      bytes += job_.sent_bytes(rank);
    }
    return bytes;
  }

  Bytes content_ = testing::noise(kFileBytes);
  std::array<std::vector<std::uint32_t>, kRanks> groups_;  // By rank.
  std::array<int, kRanks> allocate_errors_ = {};           // What a rank that shares memory is told.
  std::array<int, kRanks> reach_errors_ = {};              // What a rank is told that looks at such memory.
  std::array<Bytes, kRanks> found_;                        // By each rank.
  std::array<std::uint64_t, kRanks> bytes_read_ = {};      // From the file.
  std::array<Report, kRanks> reports_;

 private:
  void read(const Range& range, JointLoad& load, const coord::Coordinator& coordinator) {
    const std::size_t rank = coordinator.rank();
    staging::TestPlane test;
    io::Syscalls& syscalls = test.plane->engine.syscalls();
    const io::Directory directory = io::Directory::open(syscalls, directory_.path());
    const SharedReads::Files files = [&](const std::string& name) {
      staging::FileToRead file;
      file.name = name;
      file.path = directory_ / name;
      file.size_bytes = content_.size();
      file.open = [&directory, name, path = file.path, size = file.size_bytes](io::Engine& engine,
                                                                               bool direct) {
        const auto open = [&](int flags) { return directory.open_file(name, flags); };
        return std::make_unique<io::DiskFile>(engine, path, size, direct, open);
      };
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
    test.disk.allocate_error = allocate_errors_[rank];
    test.disk.open_error = reach_errors_[rank];
    SharedReads reads(*test.plane, coordinator, groups_[rank], load.channel("reads"), files,
                      std::move(pieces));
    test.run(reads.read());
    test.run(load.end());
    bytes_read_[rank] = test.plane->read_bytes;
    test.meter.fill_words(reports_[rank]);
  }

  [[nodiscard]] std::optional<io::FileDigest> digest() const {
    io::ChunkHasher hasher;
    hasher.update(content_);
    return hasher.finish("data");
  }

  testing::LocalRanks job_{kRanks};
  testing::TempDir directory_;
};

TEST_F(SharedReadsOfRanks, ReadEachByteOnceForAllWhoWantIt) {
  const Range all{0, kFileBytes};

  EXPECT_THAT(read({all, all, all}), IsEmpty());

  EXPECT_TRUE(found_[0] == content_ && found_[1] == content_ && found_[2] == content_);
  EXPECT_EQ(bytes_read_[0] + bytes_read_[1] + bytes_read_[2], kFileBytes);
  EXPECT_THAT(bytes_read_, Each(Gt(0U)));
}

TEST_F(SharedReadsOfRanks, ReadEachByteOnceInEachGroup) {
  const Range all{0, kFileBytes};
  groups_ = {{{0}, {1, 2}, {2, 1}}};

  EXPECT_THAT(read({all, all, all}), IsEmpty());

  EXPECT_TRUE(found_[0] == content_ && found_[1] == content_ && found_[2] == content_);
  EXPECT_EQ(bytes_read_[0], kFileBytes);
  EXPECT_EQ(bytes_read_[1] + bytes_read_[2], kFileBytes);
  EXPECT_THAT(bytes_read_, Each(Gt(0U)));
}

TEST_F(SharedReadsOfRanks, FailOnAllWhereGroupsContradictEachOther) {
  const Range all{0, kFileBytes};
  groups_ = {{{0, 1}, {1, 2}, {1, 2}}};

  const std::string failures = read({all, all, all});

  for (const char* rank : {"rank 0: ", "rank 1: ", "rank 2: "}) {
    EXPECT_THAT(failures,
                HasSubstr(rank + std::string("groups of ranks contradict each other: the group that "
                                             "rank 0 names")));
  }
}

TEST_F(SharedReadsOfRanks, GiveEachRankTheRangeThatItWants) {
  const Ranges ranges = {Range{100, 4 * io::kChunkBytes}, {3 * io::kChunkBytes + 7, 3'000'000}, {}};

  EXPECT_THAT(read(ranges), IsEmpty());

  EXPECT_TRUE(found_[0] == content(ranges[0]) && found_[1] == content(ranges[1]));
  EXPECT_EQ(bytes_read_[2], 0U);
}

TEST_F(SharedReadsOfRanks, PassBytesOnInMemoryThatTheyShare) {
  const Range all{0, kFileBytes};

  EXPECT_THAT(read({all, all, all}), IsEmpty());

  EXPECT_LT(sent_bytes(), io::kChunkBytes / 10);
  for (const Report& report : reports_) {
    EXPECT_THAT(report.fallbacks, IsEmpty());
  }
}

TEST_F(SharedReadsOfRanks, SendWhatIsSmall) {
  const Range all{0, 10'000};
  content_.resize(all.bytes);
  write(content_);

  EXPECT_THAT(read({all, all, all}), IsEmpty());

  EXPECT_TRUE(found_[0] == content_ && found_[1] == content_ && found_[2] == content_);
  EXPECT_GT(sent_bytes(), 2 * all.bytes);
}

TEST_F(SharedReadsOfRanks, SendWhatARankHasNoMemoryToShareFor) {
  const Range all{0, kFileBytes};
  allocate_errors_[1] = ENOSPC;

  EXPECT_THAT(read({all, all, all}), IsEmpty());

  EXPECT_TRUE(found_[0] == content_ && found_[1] == content_ && found_[2] == content_);
  EXPECT_GT(sent_bytes(), 2 * io::kChunkBytes);
  EXPECT_THAT(reports_[0].fallbacks, IsEmpty());
  EXPECT_THAT(reports_[1].fallbacks,
              ElementsAre(AllOf(HasSubstr("'data': no memory that ranks of one machine share"),
                                HasSubstr("No space left on device"), HasSubstr("sent in packets"))));
}

TEST_F(SharedReadsOfRanks, SendAgainWhatLiesInMemoryThatARankCannotReach) {
  const Range all{0, kFileBytes};
  reach_errors_[2] = EACCES;

  EXPECT_THAT(read({all, all, all}), IsEmpty());

  EXPECT_TRUE(found_[0] == content_ && found_[1] == content_ && found_[2] == content_);
  EXPECT_THAT(reports_[0].fallbacks, IsEmpty());
  EXPECT_THAT(
      reports_[2].fallbacks,
      UnorderedElementsAre(HasSubstr("'data': memory that rank 0 shares is out of reach (open /proc/"),
                           HasSubstr("'data': memory that rank 1 shares is out of reach (open /proc/")));
}

TEST_F(SharedReadsOfRanks, RefuseARangeThatSharedMemoryDoesNotHave) {
  const Range all{0, kFileBytes};
  io::SharedMemory memory(io::posix_syscalls(), "cairn-of-a-liar", io::kChunkBytes);
  const Act lie = [&](JointLoad& load) {
    const staging::TestPlane test;
    coord::Channel channel = load.channel("reads");
    std::string wants;
    put_group(wants, std::nullopt);
    wants += encode_wants({{"data", {{0, kFileBytes}}}});
    static_cast<void>(test.run(channel.gather(std::move(wants))));
    static_cast<void>(test.run(channel.scatter({})));
    std::string text;
    put(text, std::uint8_t{1});                 // A run in shared memory,
    put(text, std::uint64_t{0});                // its number,
    put(text, std::uint32_t{0});                // its file,
    put(text, std::uint64_t{0});                // where it is there,
    put(text, ~std::uint64_t{0});               // and in the memory,
    put(text, std::uint64_t{io::kChunkBytes});  // how much of it,
    put(text, memory.key().process);
    put(text, memory.key().fd);
    put(text, memory.key().bytes);
    put_text(text, memory.key().name);
    channel.send(std::array<std::size_t, 1>{0}, text);
    test.run(load.end());
  };

  const std::string failures = read({all, all, all}, {{1, lie}});

  EXPECT_THAT(failures,
              HasSubstr("rank 0: rank 1 told of 1048576 bytes at 18446744073709551615 of the 1048576"));
}

TEST_F(SharedReadsOfRanks, FailOnAllWhereOneHasReadDamagedBytes) {
  Bytes damaged = content_;
  damaged[kFileBytes - 1] ^= std::byte{1};
  write(damaged);
  const Range all{0, kFileBytes};

  const std::string failures = read({all, all, all});

  EXPECT_EQ(std::count(failures.begin(), failures.end(), '\n'), 3) << failures;
  EXPECT_THAT(failures, AllOf(HasSubstr("rank 1: rank 0: "), HasSubstr("checksum mismatch"),
                              ::testing::Not(HasSubstr("peer failed"))));
}

}  // namespace
}  // namespace cairn::joint
