// SPDX-License-Identifier: Apache-2.0
#include "flash/internal/agent.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/api/find.hpp"

#include "api/fixture.hpp"
#include "flash/internal/run_images.hpp"
#include "flash/steps.hpp"
#include "support/number_from.hpp"
#include "support/process.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_dir.hpp"

namespace cairn::flash {
namespace {

using ::testing::StartsWith;

class Agents : public testing::ApiTest {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(testing::kSharedMemory)) {
      GTEST_SKIP() << "no " << testing::kSharedMemory;
    }
    above_ = std::make_unique<testing::TempDir>(testing::kSharedMemory);
  }

  [[nodiscard]] std::filesystem::path memory() const { return *above_ / "run"; }
  [[nodiscard]] std::filesystem::path root() const { return directory_ / "run"; }

  [[nodiscard]] std::unique_ptr<testing::Process> start(std::vector<std::string> program, int restarts = 0,
                                                        const char* grace_ms = "100", int die_at = 0) const {
    std::vector<std::string> words = {memory(), root(), grace_ms, std::to_string(restarts),
                                      std::to_string(die_at)};
    words.insert(words.end(), program.begin(), program.end());
    return std::make_unique<testing::Process>(CAIRN_LAST_WORD, std::move(words));
  }

  /// A training that saves steps without end, or so many, or dies at a call of the system.
  [[nodiscard]] std::vector<std::string> flasher(int steps = 0, int die_at = 0) const {
    std::vector<std::string> words = flasher_words(steps, die_at);
    words.insert(words.begin(), CAIRN_FLASHER);
    return words;
  }
  [[nodiscard]] std::vector<std::string> flasher_words(int steps, int die_at) const {
    return {memory(), root(), "1000000", std::to_string(steps), std::to_string(die_at)};
  }

  /// The newest step on disk.
  [[nodiscard]] std::optional<std::uint64_t> on_disk() const {
    const std::optional<FoundCheckpoint> found = latest_checkpoint(root(), {}, *context_);
    return found ? std::optional(std::stoull(found->name)) : std::nullopt;
  }

  static std::optional<std::uint64_t> last_saved(const std::vector<std::string>& said) {
    std::optional<std::uint64_t> last;
    for (const std::string& line : said) {
      if (line.starts_with("saved ")) {
        last = std::stoull(line.substr(6));
      }
    }
    return last;
  }

  std::unique_ptr<testing::TempDir> above_;
};

TEST_F(Agents, HaveTheLastWordForAProgramThatDies) {
  const std::unique_ptr<testing::Process> whole = start(flasher(3));
  const std::vector<std::string> orderly = whole->finish();
  EXPECT_EQ(on_disk(), 0u) << "what has ended in order is left as it is";

  const std::vector<std::string> said = start(flasher(0, 800))->finish();

  const std::optional<std::uint64_t> last = last_saved(said);
  ASSERT_TRUE(last);
  ASSERT_TRUE(on_disk());
  EXPECT_GE(*on_disk(), *last);
  EXPECT_LE(*on_disk(), *last + 1);
  EXPECT_EQ(load(root() / std::to_string(*on_disk()), {}, *context_), state_at(*on_disk()));
}

TEST_F(Agents, StartAProgramAgainThatDies) {
  const std::vector<std::string> said = start(flasher(0, 800), 2)->finish();

  EXPECT_EQ(std::count_if(said.begin(), said.end(),
                          [](const std::string& line) { return line.starts_with("resumed"); }),
            3);
}

TEST_F(Agents, PassATermOnAndPersistTheNewest) {
  const std::unique_ptr<testing::Process> agent = start(flasher());
  EXPECT_THAT(agent->next_line(), StartsWith("resumed none"));
  EXPECT_THAT(agent->next_line(), StartsWith("saved"));
  EXPECT_THAT(agent->next_line(), StartsWith("saved"));

  agent->signal(SIGTERM);
  static_cast<void>(agent->finish());

  ASSERT_TRUE(on_disk());
  EXPECT_GE(*on_disk(), 1u);
}

TEST_F(Agents, EndAtASecondSignal) {
  const auto begin = std::chrono::steady_clock::now();
  const std::unique_ptr<testing::Process> agent =
      start({"sh", "-c", "trap '' TERM INT; echo $$; exec sleep 60 2>&1"}, 0, "60000");
  const std::string program = agent->next_line();

  agent->signal(SIGTERM);
  agent->signal(SIGINT);
  agent->await_end();

  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(::kill(std::stoi(program), SIGKILL), 0) << "it is left as it is";
}

TEST_F(Agents, ThatAreStoppedCostSavesNothing) {
  const std::unique_ptr<testing::Process> agent = start(flasher());
  EXPECT_THAT(agent->next_line(), StartsWith("resumed none"));
  agent->signal(SIGSTOP);

  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(agent->next_line(), StartsWith("saved"));
  }

  agent->signal(SIGCONT);
  agent->signal(SIGTERM);
  const std::optional<std::uint64_t> last = last_saved(agent->finish());
  ASSERT_TRUE(on_disk());
  EXPECT_GE(*on_disk(), last.value_or(4));
}

TEST_F(Agents, ThatAreKilledWithTheirProgramLeaveAllToTheNext) {
  std::optional<std::uint64_t> last;
  {
    const std::unique_ptr<testing::Process> agent = start(flasher());
    EXPECT_THAT(agent->next_line(), StartsWith("resumed none"));
    EXPECT_THAT(agent->next_line(), StartsWith("saved"));
    EXPECT_THAT(agent->next_line(), StartsWith("saved"));
    agent->signal(SIGKILL);
    last = last_saved(agent->finish()).value_or(1);
  }

  const std::unique_ptr<testing::Process> next = start({});  // It serves.
  for (int looks = 0; looks < 500 && on_disk() < last; ++looks) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

  EXPECT_GE(on_disk(), last);
  next->signal(SIGTERM);
  static_cast<void>(next->finish());
}

TEST_F(Agents, LeaveTheLastWordToTheNextAtWhicheverCallTheyDie) {
  constexpr int kAtNone = 1'000'000'000;
  const std::optional<std::uint64_t> last =
      last_saved(testing::Process(CAIRN_FLASHER, flasher_words(0, 800)).finish());
  ASSERT_TRUE(last);
  const std::vector<std::string> said = start({"/bin/true"}, 0, "100", kAtNone)->finish();
  ASSERT_THAT(said, ::testing::ElementsAre(StartsWith("calls ")));
  const int calls = std::stoi(said[0].substr(6));
  ASSERT_GE(on_disk(), last);
  const std::uint64_t newest = *on_disk();

  const int deaths =
      static_cast<int>(testing::number_from("CAIRN_FLASH_DEATHS", testing::kHasSanitizer ? 8 : 25));
  for (int death = 1; death <= deaths; ++death) {
    const int at = std::max(1, calls * death / deaths);
    SCOPED_TRACE(::testing::Message() << "dies at call " << at);
    std::filesystem::remove_all(root() / std::to_string(newest));
    start({"/bin/true"}, 0, "100", at)->await_end();
    if (on_disk() == newest) {
      EXPECT_EQ(load(root() / std::to_string(newest), {}, *context_), state_at(newest));
    }
  }

  static_cast<void>(start({"/bin/true"})->finish());
  EXPECT_EQ(on_disk(), newest);
  EXPECT_EQ(load(root() / std::to_string(newest), {}, *context_), state_at(newest));
}

TEST_F(Agents, PersistNothingThatIsThere) {
  static_cast<void>(start(flasher(0, 800))->finish());
  const std::optional<std::uint64_t> before = on_disk();

  const RunImages images(memory(), root(), *context_);
  EXPECT_EQ(images.persist_newest([](const std::exception&) {}), std::nullopt);

  EXPECT_EQ(on_disk(), before);
}

}  // namespace
}  // namespace cairn::flash
