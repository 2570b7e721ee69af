// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cairn/cairn.hpp"

#include "disk/disk.hpp"

namespace cairn::disk {

/// Whose disk it is, who reads and writes, and how much.
struct Setting {
  FileSystem system;
  io::EngineKind engine;
  std::size_t values;
};

inline constexpr std::size_t kSmall = 10'000;   // Through the page cache.
inline constexpr std::size_t kLarge = 400'000;  // Past it, for the most part.

/// For the name of a test, and for people.
inline std::string name_of(const Setting& setting) {
  return std::string(setting.system.name) + (setting.engine == io::EngineKind::threads ? "Threads" : "Ring") +
         (setting.values == kSmall ? "Small" : "Large");
}

inline void PrintTo(const Setting& setting, std::ostream* out) {
  *out << name_of(setting);
}

/// A checkpoint `step` on a disk that may fail.
class OnDiskTest : public ::testing::TestWithParam<Setting> {
 protected:
  OnDiskTest() : disk_(GetParam().system), context_(options()) {}

  void SetUp() override {
    const std::string reason = disk_.missing();
    if (!reason.empty()) {
      GTEST_SKIP() << reason;
    }
    save_number(1);
  }

  static Tree state(std::int64_t number) {
    Tree tree;
    tree["weights"] =
        Array::adopt(std::vector<std::int32_t>(GetParam().values, static_cast<std::int32_t>(number)));
    tree["number"] = number;
    return tree;
  }

  [[nodiscard]] std::filesystem::path step() const { return disk_.root() / "step"; }

  void save_number(std::int64_t number) {
    SaveOptions overwriting;
    overwriting.overwrite = true;
    save(step(), state(number), overwriting, context_);
  }

  /// The number of the save that is there, with every byte.
  std::int64_t saved_number() {
    const Tree tree = load(step(), {}, context_);
    const auto number = tree.at("number").as<std::int64_t>();
    EXPECT_EQ(tree, state(number));
    return number;
  }

  MountedDisk disk_;
  const Context context_;

 private:
  static ContextOptions options() {
    ContextOptions options;
    options.engine = GetParam().engine;
    options.staging_bytes = std::size_t{64} << 20;
    return options;
  }
};

}  // namespace cairn::disk
