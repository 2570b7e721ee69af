// SPDX-License-Identifier: Apache-2.0
// The power of a real file system is cut while a process saves on it; mounted again, all that was said to be saved
// must be there. Prints one line for each file system. Needs root, loop devices and mkfs; says so where they are not.
//
// CAIRN_POWER_CUTS: how often on each (50 when unset); CAIRN_POWER_SEED: where the random moments begin.
#include <fcntl.h>
#include <linux/types.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kill/ledger.hpp"
#include "support/number_from.hpp"
#include "support/process.hpp"
#include "support/sampling.hpp"
#include "support/sync_file_system.hpp"
#include "support/temp_dir.hpp"

namespace cairn::kill {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kCuts = 20;
constexpr int kLongestMicroseconds = 60'000;

/// ext4's and XFS' ioctl that ends all writing at once: nothing that is not on the device gets there.
constexpr unsigned long kShutDown = _IOR('X', 125, std::uint32_t);
/// Says whether the journal is written first, as far as it has got: a cut that comes a little later.
constexpr std::array<std::uint32_t, 2> kFlags{1, 2};

struct FileSystem {
  const char* name;
  const char* make;  // Of an image file.
  std::uint64_t image_bytes;
};

bool succeeds(const std::string& command) {
  return std::system((command + " > /dev/null 2>&1").c_str()) == 0;
}

class PowerTest : public ::testing::TestWithParam<FileSystem> {
 protected:
  ~PowerTest() override { succeeds("umount " + mount_point_.string()); }

  /// Makes and mounts the file system. Returns why that cannot be; empty when it has been done.
  std::string missing() {
    const std::string image = (directory_ / "image").string();
    cairn::testing::write_text(image, "");
    fs::resize_file(image, GetParam().image_bytes);
    fs::create_directory(mount_point_);
    if (!succeeds(fmt::format("{} {}", GetParam().make, image))) {
      return fmt::format("'{}' does not work", GetParam().make);
    }
    if (!mount()) {
      return fmt::format("no {} can be mounted here", GetParam().name);
    }
    fs::create_directory(root());
    cairn::testing::sync_file_system(root());
    return "";
  }

  bool mount() const {
    return succeeds(
        fmt::format("mount -o loop {} {}", (directory_ / "image").string(), mount_point_.string()));
  }

  [[nodiscard]] fs::path root() const { return mount_point_ / "run"; }

  void run_until_cut(bool by_threads) {
    cairn::testing::Process process(CAIRN_VICTIM, {root().string(), by_threads ? "threads" : "automatic",
                                                   std::to_string(ledger_.last() + 1), "quick"});
    process.await_first_word();
    std::uniform_int_distribution<int> delay(0, kLongestMicroseconds);
    std::this_thread::sleep_for(std::chrono::microseconds(delay(random_)));
    cut(kFlags[random_() % kFlags.size()]);
    ledger_.read(process.finish());  // It ends at its first error.
    ASSERT_TRUE(succeeds("umount " + mount_point_.string()));
    ASSERT_TRUE(mount());
  }

  void cut(std::uint32_t flag) const {
    const int directory = ::open(mount_point_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_GE(directory, 0);
    const int result = ::ioctl(directory, kShutDown, &flag);
    ::close(directory);
    ASSERT_EQ(result, 0);
  }

  const cairn::testing::TempDir directory_;
  const fs::path mount_point_ = directory_ / "mounted";
  const Context context_;
  Ledger ledger_;
  std::mt19937_64 random_;
};

TEST_P(PowerTest, CutLosesNothingThatWasSaidToBeSaved) {
  const std::string reason = missing();
  if (!reason.empty()) {
    GTEST_SKIP() << reason;
  }
  const std::uint64_t cuts = testing::number_from("CAIRN_POWER_CUTS", kCuts);
  const std::uint64_t seed = testing::number_from("CAIRN_POWER_SEED", testing::first_number());
  random_.seed(seed);

  for (std::uint64_t i = 0; i < cuts; ++i) {
    ASSERT_NO_FATAL_FAILURE(run_until_cut(i % 2 == 1)) << "cut " << i;
    ASSERT_EQ(ledger_.complaint(root(), context_), "") << "cut " << i;
  }

  fmt::print("power: {}: {} cuts, {} saves, {} interrupted, 0 lost (seed {})\n", GetParam().name, cuts,
             ledger_.saves(), ledger_.interrupted(), seed);
  EXPECT_GT(ledger_.interrupted(), cuts / 2);
}

INSTANTIATE_TEST_SUITE_P(FileSystems, PowerTest,
                         ::testing::Values(FileSystem{"ext4", "mkfs.ext4 -q -F", 64 << 20},
                                           FileSystem{"xfs", "mkfs.xfs -q -f", 320 << 20}),
                         [](const auto& system) { return std::string(system.param.name); });

}  // namespace
}  // namespace cairn::kill
