// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
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
#include "support/sanitizer.hpp"
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

  [[nodiscard]] std::unique_ptr<testing::Process> start(std::uint64_t disk_every = 1'000'000,
                                                        std::uint64_t steps = 0,
                                                        std::uint64_t die_at = 0) const {
    return std::make_unique<testing::Process>(
        CAIRN_FLASHER, std::vector<std::string>{memory(), root(), std::to_string(disk_every),
                                                std::to_string(steps), std::to_string(die_at)});
  }

  /// Takes a step, or a number of calls, from the line that says it.
  static std::optional<std::uint64_t> number_behind(const std::string& word,
                                                    const std::vector<std::string>& said) {
    std::optional<std::uint64_t> last;
    for (const std::string& line : said) {
      EXPECT_THAT(line, ::testing::Not(StartsWith("failed")));
      if (line.starts_with(word)) {
        last = std::stoull(line.substr(word.size()));
      }
    }
    return last;
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
    return number_behind("saved ", said);
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

TEST_F(KilledPrograms, LoseNothingAtWhicheverCallTheyDie) {
  constexpr std::uint64_t kSteps = 4;
  const int deaths = testing::kHasSanitizer ? 25 : 100;
  const std::unique_ptr<testing::Process> whole = start(2, kSteps);
  const std::vector<std::string> said = whole->finish();
  std::optional<std::uint64_t> reached = number_behind("saved ", said);
  const std::optional<std::uint64_t> calls = number_behind("closed ", said);
  ASSERT_TRUE(reached && calls);

  for (int death = 1; death <= deaths; ++death) {
    const std::uint64_t at = *calls * static_cast<std::uint64_t>(death) / static_cast<std::uint64_t>(deaths);
    SCOPED_TRACE(::testing::Message() << "dies at call " << at);
    const std::vector<std::string> words = start(2, kSteps, at)->finish();
    const std::optional<std::uint64_t> resumed = number_behind("resumed ", words);
    if (resumed) {
      EXPECT_GE(*resumed, *reached);
      EXPECT_LE(*resumed, *reached + 1);
      EXPECT_THAT(words[0], HasSubstr("memory"));
    }
    reached = std::max(reached, std::max(resumed, number_behind("saved ", words)));
    ASSERT_FALSE(HasFailure());
  }

  const std::unique_ptr<FlashCheckpointer> next = open();
  std::optional<FlashResumed> resumed = next->resume({"state"});
  ASSERT_TRUE(resumed);
  EXPECT_GE(resumed->step, *reached);
  EXPECT_TRUE(resumed->passed_over.empty());
  EXPECT_EQ(resumed->loaded.take<Tree>("state"), state_at(resumed->step));
  for (const auto& entry : std::filesystem::directory_iterator(memory() / "r00000")) {
    const std::string name = entry.path().filename();
    EXPECT_FALSE(name.starts_with(".tmp-") || name.starts_with(".trash-")) << name;
  }
}

}  // namespace
}  // namespace cairn::flash
