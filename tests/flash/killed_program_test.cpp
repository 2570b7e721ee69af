// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/api/copy.hpp"
#include "cairn/flash/flash_checkpointer.hpp"

#include "api/fixture.hpp"
#include "flash/steps.hpp"
#include "support/process.hpp"
#include "support/temp_dir.hpp"

namespace cairn::flash {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class KilledPrograms : public testing::ApiTest {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(testing::kSharedMemory)) {
      GTEST_SKIP() << "no " << testing::kSharedMemory;
    }
    above_ = std::make_unique<testing::TempDir>(testing::kSharedMemory);
  }

  [[nodiscard]] std::filesystem::path memory() const { return *above_ / "run"; }
  [[nodiscard]] std::filesystem::path root() const { return directory_ / "run"; }

  [[nodiscard]] std::unique_ptr<testing::Process> start(std::uint64_t disk_every = 1'000'000) const {
    return std::make_unique<testing::Process>(
        CAIRN_FLASHER, std::vector<std::string>{memory(), root(), std::to_string(disk_every)});
  }

  /// Kills the program once it has said so many lines. Returns the last step that it has said to be in memory.
  static std::optional<std::uint64_t> kill_after(testing::Process& program, int lines) {
    std::vector<std::string> said;
    for (int i = 0; i < lines; ++i) {
      said.push_back(program.next_line());
    }
    program.signal(SIGKILL);
    for (std::string& line : program.finish()) {
      said.push_back(std::move(line));
    }
    std::optional<std::uint64_t> last;
    for (const std::string& line : said) {
      EXPECT_THAT(line, ::testing::Not(StartsWith("failed")));
      if (line.starts_with("saved ")) {
        last = std::stoull(line.substr(6));
      }
    }
    return last;
  }

  [[nodiscard]] std::unique_ptr<FlashCheckpointer> open() const {
    FlashOptions options;
    options.memory = memory();
    return std::make_unique<FlashCheckpointer>(root(), options, *context_);
  }

  std::unique_ptr<testing::TempDir> above_;
};

TEST_F(KilledPrograms, LeaveTheirNewestStepInMemoryForTheNext) {
  const std::optional<std::uint64_t> last = kill_after(*start(), 4);
  ASSERT_TRUE(last);

  const std::unique_ptr<FlashCheckpointer> next = open();
  std::optional<FlashResumed> resumed = next->resume({"state"});

  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->from, ResumedFrom::memory);
  EXPECT_GE(resumed->step, *last);
  EXPECT_LE(resumed->step, *last + 1);
  EXPECT_EQ(resumed->loaded.take<Tree>("state"), state_at(resumed->step));
}

TEST_F(KilledPrograms, LeaveWhatAnybodyCopiesToADisk) {
  const std::optional<std::uint64_t> last = kill_after(*start(), 4);
  ASSERT_TRUE(last);

  copy_checkpoint(memory() / "r00000" / std::to_string(*last), directory_ / "copy", {}, *context_);

  EXPECT_EQ(load(directory_ / "copy", {}, *context_), state_at(*last));
}

TEST_F(KilledPrograms, NeverGoBack) {
  std::uint64_t reached = 0;
  for (int i = 0; i < 10; ++i) {
    const std::unique_ptr<testing::Process> program = start(3);
    const std::string word = program->next_line();
    if (i > 0) {
      EXPECT_THAT(word, StartsWith("resumed "));
      EXPECT_THAT(word, HasSubstr("memory"));
      EXPECT_GE(std::stoull(word.substr(8)), reached);
    }
    reached = kill_after(*program, 1 + i % 3).value_or(reached);
  }
}

}  // namespace
}  // namespace cairn::flash
