// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "api/fixture.hpp"
#include "support/process.hpp"
#include "support/temp_dir.hpp"

namespace cairn::flash {

/// Programs and agents that use a memory and a root, beside the test.
class FlashProcesses : public testing::ApiTest {
 protected:
  using Started = std::unique_ptr<testing::Process>;

  void SetUp() override {
    if (!std::filesystem::is_directory(testing::kSharedMemory)) {
      GTEST_SKIP() << "no " << testing::kSharedMemory;
    }
    above_ = std::make_unique<testing::TempDir>(testing::kSharedMemory);
  }

  [[nodiscard]] std::filesystem::path memory() const { return *above_ / "run"; }
  [[nodiscard]] std::filesystem::path root() const { return directory_ / "run"; }

  /// Returns the command of a training that saves so many steps (0: without end), and dies at a call of the system
  /// (0: at none).
  [[nodiscard]] std::vector<std::string> flasher(std::uint64_t disk_every, std::uint64_t steps = 0,
                                                 std::uint64_t die_at = 0) const {
    return {CAIRN_FLASHER,         memory(), root(), std::to_string(disk_every), std::to_string(steps),
            std::to_string(die_at)};
  }
  [[nodiscard]] static Started start(std::vector<std::string> words) {
    std::string program = std::move(words.front());
    words.erase(words.begin());
    return std::make_unique<testing::Process>(std::move(program), std::move(words));
  }
  /// Starts an agent for a program; without one it serves.
  [[nodiscard]] Started start_agent(const std::vector<std::string>& program, int restarts = 0,
                                    const char* grace_ms = "100", std::uint64_t die_at = 0) const {
    std::vector<std::string> words = {
        CAIRN_LAST_WORD, memory(), root(), grace_ms, std::to_string(restarts), std::to_string(die_at)};
    words.insert(words.end(), program.begin(), program.end());
    return start(std::move(words));
  }

  /// Takes the last step, or a number of calls, from the lines that say it.
  static std::optional<std::uint64_t> number_behind(const std::string& word,
                                                    const std::vector<std::string>& said) {
    std::optional<std::uint64_t> last;
    for (const std::string& line : said) {
      EXPECT_THAT(line, ::testing::Not(::testing::StartsWith("failed")));
      if (line.starts_with(word) && line != "resumed none") {
        last = std::stoull(line.substr(word.size()));
      }
    }
    return last;
  }

  std::unique_ptr<testing::TempDir> above_;
};

}  // namespace cairn::flash
