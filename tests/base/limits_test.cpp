// SPDX-License-Identifier: Apache-2.0
#include "base/internal/limits.hpp"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "support/temp_dir.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kMachine = std::uint64_t{64} << 30;

/// A machine of 64 GiB, with the control groups that the test makes.
class MemoryLimit : public ::testing::Test {
 protected:
  MemoryLimit() {
    sources_.proc = root_ / "proc";
    sources_.cgroup = root_ / "cgroup";
    sources_.address_space = ~std::uint64_t{0};
    write("proc/meminfo", "MemTotal:       67108864 kB\nMemFree:        1 kB\n");
    write("proc/self/cgroup", "");
  }

  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    testing::write_text(path, text);
  }

  testing::TempDir root_;
  LimitSources sources_;
};

TEST_F(MemoryLimit, IsTheMachinesWithoutAnother) {
  EXPECT_EQ(memory_limit(sources_), kMachine);
  EXPECT_EQ(default_staging_bytes(sources_), kMachine / 4);
  EXPECT_EQ(default_unpacked_bytes(sources_), kMachine / 2);
}

TEST_F(MemoryLimit, IsThatOfAGroupOfVersion2) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("cgroup/a/b/memory.max", "1000000\n");
  write("cgroup/a/memory.max", "max\n");

  EXPECT_EQ(memory_limit(sources_), 1'000'000u);
}

TEST_F(MemoryLimit, IsTheSmallestUpTheHierarchy) {
  write("proc/self/cgroup", "0::/a/b/c\n");
  write("cgroup/a/b/c/memory.max", "3000000\n");
  write("cgroup/a/memory.max", "2000000\n");

  EXPECT_EQ(memory_limit(sources_), 2'000'000u);
}

TEST_F(MemoryLimit, IsWhereAGroupIsSlowedDown) {
  write("proc/self/cgroup", "0::/a\n");
  write("cgroup/a/memory.max", "3000000\n");
  write("cgroup/a/memory.high", "1000000\n");

  EXPECT_EQ(memory_limit(sources_), 1'000'000u);
}

TEST_F(MemoryLimit, IsThatOfTheRootWhereTheGroupIsNotVisible) {
  write("proc/self/cgroup", "0::/docker/0123\n");
  write("cgroup/memory.max", "4000000\n");

  EXPECT_EQ(memory_limit(sources_), 4'000'000u);
}

TEST_F(MemoryLimit, IsThatOfAGroupOfVersion1) {
  write("proc/self/cgroup", "9:name=systemd:/x\n4:memory:/a/b\n0::/\n");
  write("cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  write("cgroup/memory/a/memory.limit_in_bytes", "5000000\n");
  write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");

  EXPECT_EQ(memory_limit(sources_), 5'000'000u);
}

TEST_F(MemoryLimit, IsFoundAmongControllersThatShareAHierarchy) {
  write("proc/self/cgroup", "4:cpu,memory:/a\n");
  write("cgroup/cpu,memory/a/memory.limit_in_bytes", "6000000\n");

  EXPECT_EQ(memory_limit(sources_), 6'000'000u);
}

TEST_F(MemoryLimit, IsNotThatOfAStranger) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("cgroup/a/other/memory.max", "7000000\n");
  write("cgroup/a/b2/memory.max", "7000000\n");

  EXPECT_EQ(memory_limit(sources_), kMachine);
}

TEST_F(MemoryLimit, IsThatOfTheAddressSpace) {
  sources_.address_space = 8'000'000;

  EXPECT_EQ(memory_limit(sources_), 8'000'000u);
}

TEST_F(MemoryLimit, SurvivesFilesThatSayNothing) {
  write("proc/self/cgroup", "nonsense\n0:\n:::::\n0::/a\n");
  write("cgroup/a/memory.max", "");
  std::filesystem::remove(root_.path() / "proc/meminfo");

  EXPECT_GT(memory_limit(sources_), std::uint64_t{16} << 20);
}

}  // namespace
}  // namespace cairn
