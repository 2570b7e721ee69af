// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/temp_dir.hpp"

namespace cairn::testing {

class JointSaving : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path target() const { return directory_ / "step"; }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  TempDir directory_;
};

}  // namespace cairn::testing
