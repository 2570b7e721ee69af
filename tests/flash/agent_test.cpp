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
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/api/find.hpp"

#include "flash/internal/run_images.hpp"
#include "flash/processes.hpp"
#include "flash/retries.hpp"
#include "flash/steps.hpp"
#include "support/dice.hpp"
#include "support/process.hpp"
#include "support/sampling.hpp"

namespace cairn::flash {
namespace {

using ::testing::StartsWith;

class Agents : public FlashProcesses {
 protected:
  /// A training that saves steps without end, or so many, or dies at a call of the system.
  [[nodiscard]] std::vector<std::string> flasher(std::uint64_t steps = 0, std::uint64_t die_at = 0) const {
    return FlashProcesses::flasher(1'000'000, steps, die_at);
  }

  /// The newest step on disk.
  [[nodiscard]] std::optional<std::uint64_t> on_disk() const {
    const std::optional<FoundCheckpoint> found = latest_checkpoint(root(), {}, *context_);
    return found ? std::optional(std::stoull(found->name)) : std::nullopt;
  }

  static std::optional<std::uint64_t> last_saved(const std::vector<std::string>& said) {
    return number_behind("saved ", said);
  }
};

TEST_F(Agents, HaveTheLastWordForAProgramThatDies) {
  const std::unique_ptr<testing::Process> whole = start_agent(flasher(3));
  const std::vector<std::string> orderly = whole->finish();
  EXPECT_EQ(on_disk(), 0u) << "what has ended in order is left as it is";

  const std::vector<std::string> said = start_agent(flasher(0, 800))->finish();

  const std::optional<std::uint64_t> last = last_saved(said);
  ASSERT_TRUE(last);
  ASSERT_TRUE(on_disk());
  EXPECT_GE(*on_disk(), *last);
  EXPECT_LE(*on_disk(), *last + 1);
  EXPECT_EQ(load(root() / std::to_string(*on_disk()), {}, *context_), state_at(*on_disk()));
}

TEST_F(Agents, HaveTheLastWordForAProgramThatEndsWithZeroAndWithoutClose) {
  std::vector<std::string> words = flasher(0, 800);
  words.insert(words.begin(), {"sh", "-c", "\"$@\"; exit 0", "sh"});
  const std::vector<std::string> said = start_agent(words)->finish();

  ASSERT_TRUE(last_saved(said));
  EXPECT_GE(on_disk(), last_saved(said));
}

TEST_F(Agents, StartNoProgramAgainOnceTheyAreToldToEnd) {
  const Started agent = start_agent(
      {"sh", "-c", "trap 'exit 1' TERM; echo begun; for i in 1 2 3 4 5 6 7 8 9; do sleep 0.1; done"}, 3);
  EXPECT_EQ(agent->next_line(), "begun");

  agent->signal(SIGTERM);

  EXPECT_THAT(agent->finish(), ::testing::IsEmpty());
}

TEST_F(Agents, StartAProgramAgainThatDies) {
  const std::vector<std::string> said = start_agent(flasher(0, 800), 2)->finish();

  EXPECT_EQ(std::count_if(said.begin(), said.end(),
                          [](const std::string& line) { return line.starts_with("resumed"); }),
            3);
}

TEST_F(Agents, PassATermOnAndPersistTheNewest) {
  const std::unique_ptr<testing::Process> agent = start_agent(flasher());
  EXPECT_THAT(agent->next_line(), StartsWith("resumed none"));
  EXPECT_THAT(agent->next_line(), StartsWith("saved"));
  EXPECT_THAT(agent->next_line(), StartsWith("saved"));

  agent->signal(SIGTERM);
  static_cast<void>(agent->finish());

  ASSERT_TRUE(on_disk());
  EXPECT_GE(*on_disk(), 1u);
}

TEST_F(Agents, TakeAHangUpAsATerm) {
  std::signal(SIGHUP, SIG_DFL);  // Under nohup these tests would have it ignored, and the agent as well.
  const Started agent = start_agent(flasher());
  EXPECT_THAT(agent->next_line(), StartsWith("resumed none"));
  EXPECT_THAT(agent->next_line(), StartsWith("saved"));
  EXPECT_THAT(agent->next_line(), StartsWith("saved"));

  agent->signal(SIGHUP);
  static_cast<void>(agent->finish());

  ASSERT_TRUE(on_disk());
  EXPECT_GE(*on_disk(), 1u);
}

TEST_F(Agents, GoOnAfterAHangUpThatIsIgnored) {
  std::vector<std::string> words = {
      "/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh", CAIRN_LAST_WORD, memory(), root(), "100", "0", "0"};
  for (const std::string& word : flasher()) {
    words.push_back(word);
  }
  const Started agent = start(words);
  EXPECT_THAT(agent->next_line(), StartsWith("resumed none"));

  agent->signal(SIGHUP);

  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(agent->next_line(), StartsWith("saved"));
  }
  EXPECT_FALSE(on_disk() > 0u) << "no last word yet";
  agent->signal(SIGTERM);
  static_cast<void>(agent->finish());
}

TEST(RestartPauses, GrowUntilAProgramHasLivedForAMinute) {
  using std::chrono::seconds;
  RestartPauses pauses;
  for (const int expected : {0, 1, 2, 4, 8, 16, 32, 60, 60}) {
    EXPECT_EQ(pauses.next(seconds(59)), seconds(expected));
  }
  EXPECT_EQ(pauses.next(seconds(60)), seconds(0));
  EXPECT_EQ(pauses.next(seconds(0)), seconds(1));
}

/// Whatever the program does then: it goes on, saves, persists, or ends.
TEST_F(Agents, PersistTheNewestWheneverTheyAreToldToEnd) {
  testing::Dice dice(testing::first_number());
  for (int round = 0; round < 10; ++round) {
    const std::unique_ptr<testing::Process> agent = start_agent(FlashProcesses::flasher(3, 12));
    std::vector<std::string> said;
    for (std::size_t lines = dice.below(12); lines > 0; --lines) {
      said.push_back(agent->next_line());
    }
    std::this_thread::sleep_for(std::chrono::microseconds(dice.below(20'000)));

    agent->signal(SIGTERM);
    for (std::string& line : agent->finish()) {
      said.push_back(std::move(line));
    }

    if (const std::optional<std::uint64_t> last = last_saved(said); last && !number_behind("closed ", said)) {
      ASSERT_TRUE(on_disk()) << "round " << round;
      EXPECT_GE(*on_disk(), *last) << "round " << round;
    }
    if (on_disk()) {
      EXPECT_EQ(load(root() / std::to_string(*on_disk()), {}, *context_), state_at(*on_disk()));
    }
  }
}

TEST_F(Agents, EndAtASecondSignal) {
  const auto begin = std::chrono::steady_clock::now();
  const std::unique_ptr<testing::Process> agent =
      start_agent({"sh", "-c", "trap '' TERM INT; echo $$; exec sleep 60 2>&1"}, 0, "60000");
  const std::string program = agent->next_line();

  agent->signal(SIGTERM);
  agent->signal(SIGINT);
  agent->await_end();

  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(::kill(std::stoi(program), SIGKILL), 0) << "it is left as it is";
}

TEST_F(Agents, ThatAreStoppedCostSavesNothing) {
  const std::unique_ptr<testing::Process> agent = start_agent(flasher());
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
    const std::unique_ptr<testing::Process> agent = start_agent(flasher());
    EXPECT_THAT(agent->next_line(), StartsWith("resumed none"));
    EXPECT_THAT(agent->next_line(), StartsWith("saved"));
    EXPECT_THAT(agent->next_line(), StartsWith("saved"));
    agent->signal(SIGKILL);
    last = last_saved(agent->finish()).value_or(1);
  }

  const std::unique_ptr<testing::Process> next = start_agent({});  // It serves.
  for (int looks = 0; looks < 500 && on_disk() < last; ++looks) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

  EXPECT_GE(on_disk(), last);
  next->signal(SIGTERM);
  static_cast<void>(next->finish());
}

TEST_F(Agents, PersistNothingThatIsThere) {
  static_cast<void>(start_agent(flasher(0, 800))->finish());
  const std::optional<std::uint64_t> before = on_disk();

  const RunImages images(memory(), root(), *context_);
  EXPECT_EQ(images.persist_newest([](const std::exception&) {}), std::nullopt);

  EXPECT_EQ(on_disk(), before);
}

}  // namespace
}  // namespace cairn::flash
