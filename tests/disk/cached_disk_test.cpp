// SPDX-License-Identifier: Apache-2.0
#include "disk/cached_disk.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace cairn::disk {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kBytes = 1 << 16;

Bytes filled(std::size_t size, int value) {
  return Bytes(size, static_cast<std::byte>(value));
}

class CachedDiskTest : public ::testing::Test {
 protected:
  void write(std::uint64_t offset, int value, std::size_t size = kSectorBytes) {
    ASSERT_TRUE(disk_.write(offset, filled(size, value)));
  }

  /// The first byte of a sector.
  int at(std::uint64_t offset) {
    Bytes data(1);
    EXPECT_TRUE(disk_.read(offset, data));
    return static_cast<int>(data[0]);
  }

  void cut(std::uint64_t seed) {
    disk_.cut(seed);
    disk_.power_on();
  }

  CachedDisk disk_{kBytes};
};

TEST_F(CachedDiskTest, ShowsWhatWasWrittenAtOnce) {
  write(1024, 7);

  EXPECT_EQ(at(1024), 7);
}

TEST_F(CachedDiskTest, KeepsWhatWasSyncedThroughEveryCut) {
  write(1024, 7);
  ASSERT_TRUE(disk_.sync());

  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    cut(seed);
    ASSERT_EQ(at(1024), 7);
  }
}

TEST_F(CachedDiskTest, LeavesOfASectorAnyOfItsContentsSinceTheLastSync) {
  std::set<int> found;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    write(0, 1);
    ASSERT_TRUE(disk_.sync());
    write(0, 2);
    write(0, 3);
    cut(seed);
    found.insert(at(0));
  }

  EXPECT_EQ(found, (std::set<int>{1, 2, 3}));
}

TEST_F(CachedDiskTest, TearsAWriteBetweenSectorsOnly) {
  bool is_torn = false;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    write(0, 1, 4096);
    ASSERT_TRUE(disk_.sync());
    write(0, 2, 4096);
    cut(seed);
    Bytes all(4096);
    ASSERT_TRUE(disk_.read(0, all));
    for (std::size_t sector = 0; sector < all.size(); sector += kSectorBytes) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(sector);
      ASSERT_EQ(std::count(begin, begin + kSectorBytes, *begin), kSectorBytes);
      is_torn = is_torn || *begin != all[0];
    }
  }

  EXPECT_TRUE(is_torn);
}

TEST_F(CachedDiskTest, FailsWhileThePowerIsOff) {
  Bytes data(1);

  disk_.cut(1);

  EXPECT_FALSE(disk_.read(0, data) || disk_.write(0, data) || disk_.sync());
}

TEST_F(CachedDiskTest, FailsTheRequestsOfARangeThatAFaultCounts) {
  disk_.add({Request::write, 1, 2, 4096, 8192});

  std::vector<bool> answers;
  for (const std::uint64_t offset : {0, 4096, 3584, 4608, 8192, 7680, 4096}) {
    answers.push_back(disk_.write(offset, filled(kSectorBytes, 1)));
  }

  EXPECT_EQ(answers, (std::vector<bool>{true, true, true, false, true, false, true}));
}

TEST_F(CachedDiskTest, KeepsNothingOfAWriteThatFailed) {
  write(0, 1);
  disk_.add({Request::write});

  EXPECT_FALSE(disk_.write(0, filled(kSectorBytes, 2)));

  EXPECT_EQ(at(0), 1);
}

TEST_F(CachedDiskTest, SaysHowManyRequestsAFaultHasHit) {
  disk_.add({Request::sync, 0, 1});

  EXPECT_FALSE(disk_.sync());
  EXPECT_TRUE(disk_.sync());

  EXPECT_EQ(disk_.heal(), 1u);
}

TEST_F(CachedDiskTest, RefusesWhatLiesBehindItsEnd) {
  EXPECT_FALSE(disk_.write(kBytes - 1, filled(2, 1)));
}

}  // namespace
}  // namespace cairn::disk
