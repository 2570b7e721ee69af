// SPDX-License-Identifier: Apache-2.0
// The power of a disk is cut while a process saves on it, and the disk forgets what it held in its cache; mounted
// again, all that was said to be saved must be there. Prints one line for each file system. Where syncs or flushes
// are left out, the same must find losses.
//
// CAIRN_POWER_CUTS: how often on each (20 when unset); CAIRN_POWER_SEED: where the random moments begin.
#include <chrono>
#include <cstdint>
#include <exception>
#include <random>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "disk/disk.hpp"
#include "kill/ledger.hpp"
#include "support/number_from.hpp"
#include "support/process.hpp"
#include "support/sampling.hpp"

namespace cairn::kill {
namespace {

constexpr std::uint64_t kLostCaches = 20;
constexpr std::uint64_t kCutsToFindALoss = 10;
constexpr int kLongestRunMicroseconds = 100'000;

/// Cuts the power of one disk again and again.
class LostCaches {
 public:
  LostCaches(const disk::FileSystem& system, std::uint64_t seed) : disk_(system), random_(seed) {}

  [[nodiscard]] std::string missing() { return disk_.missing(); }

  /// Lets `program` save until the power is cut. Returns what is wrong then; empty when nothing is.
  std::string complaint_after_a_cut(const std::string& program, const std::string& engine) {
    cairn::testing::Process process(
        program, {disk_.root().string(), engine, std::to_string(ledger_.last() + 1), "quick"});
    process.await_first_word();
    std::uniform_int_distribution<int> delay(0, kLongestRunMicroseconds);
    std::this_thread::sleep_for(std::chrono::microseconds(delay(random_)));
    const disk::CachedDisk::Remains remains = disk_.cut(random_());
    lost_sectors_ += remains.lost_sectors;
    ledger_.read(process.finish());  // It ends at its first error.
    if (!disk_.mount_again()) {
      return "the file system cannot be mounted again";
    }
    try {
      return ledger_.complaint(disk_.root(), context_);
    } catch (const std::exception& error) {  // It cannot even be read.
      return error.what();
    }
  }

  [[nodiscard]] const Ledger& ledger() const { return ledger_; }
  [[nodiscard]] std::uint64_t lost_sectors() const { return lost_sectors_; }

 private:
  disk::MountedDisk disk_;
  const Context context_;
  Ledger ledger_;
  std::mt19937_64 random_;
  std::uint64_t lost_sectors_ = 0;
};

class LostCacheTest : public ::testing::TestWithParam<disk::FileSystem> {};

TEST_P(LostCacheTest, LosesNothingThatWasSaidToBeSaved) {
  const std::uint64_t cuts = testing::number_from("CAIRN_POWER_CUTS", kLostCaches);
  const std::uint64_t seed = testing::number_from("CAIRN_POWER_SEED", testing::first_number());
  LostCaches disk(GetParam(), seed);
  const std::string reason = disk.missing();
  if (!reason.empty()) {
    GTEST_SKIP() << reason;
  }

  for (std::uint64_t i = 0; i < cuts; ++i) {
    ASSERT_EQ(disk.complaint_after_a_cut(CAIRN_VICTIM, i % 2 == 1 ? "threads" : "automatic"), "")
        << "cut " << i;
  }

  fmt::print(
      "power: {}, lost cache: {} cuts, {} saves, {} interrupted, {} sectors forgotten, 0 lost (seed {})\n",
      GetParam().name, cuts, disk.ledger().saves(), disk.ledger().interrupted(), disk.lost_sectors(), seed);
  EXPECT_GT(disk.ledger().interrupted(), cuts / 2);
}

/// Returns whether a few cuts lose something.
bool finds_a_loss(LostCaches& disk, const std::string& program) {
  for (std::uint64_t i = 0; i < kCutsToFindALoss; ++i) {
    if (!disk.complaint_after_a_cut(program, "threads").empty()) {
      return true;
    }
  }
  return false;
}

TEST_P(LostCacheTest, FindsWhatASaveWithoutSyncsLoses) {
  LostCaches disk(GetParam(), 1);
  const std::string reason = disk.missing();
  if (!reason.empty()) {
    GTEST_SKIP() << reason;
  }

  EXPECT_TRUE(finds_a_loss(disk, CAIRN_CARELESS_VICTIM));
}

INSTANTIATE_TEST_SUITE_P(FileSystems, LostCacheTest, ::testing::Values(disk::kExt4, disk::kXfs, disk::kBtrfs),
                         [](const auto& system) { return std::string(system.param.name); });

class UnflushedTest : public ::testing::TestWithParam<disk::FileSystem> {};

// What an end of the file system alone would not show: it writes everything, and never tells the disk to.
TEST_P(UnflushedTest, FindsWhatIsLostWithoutFlushes) {
  LostCaches disk(GetParam(), 1);
  const std::string reason = disk.missing();
  if (!reason.empty()) {
    GTEST_SKIP() << reason;
  }

  EXPECT_TRUE(finds_a_loss(disk, CAIRN_VICTIM));
}

constexpr disk::FileSystem without_flushes(disk::FileSystem system) {
  system.options = "nobarrier";
  return system;
}

// XFS has no such option any more.
INSTANTIATE_TEST_SUITE_P(FileSystems, UnflushedTest,
                         ::testing::Values(without_flushes(disk::kExt4), without_flushes(disk::kBtrfs)),
                         [](const auto& system) { return std::string(system.param.name); });

}  // namespace
}  // namespace cairn::kill
