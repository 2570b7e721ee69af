// SPDX-License-Identifier: Apache-2.0
// cairn agent: supervises programs with steps in memory.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/flash/flash_checkpointer.hpp"

#include "cli/run_cli.hpp"
#include "flash/steps.hpp"
#include "support/process.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using testing::run_cli;

class AgentCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::is_directory(testing::kSharedMemory)) {
      GTEST_SKIP() << "no " << testing::kSharedMemory;
    }
    above_ = std::make_unique<testing::TempDir>(testing::kSharedMemory);
    memory_ = *above_ / "run";
  }

  /// A program that saves these steps, of which those that are `forced` go to disk, and ends in order.
  void save(const std::vector<std::uint64_t>& steps, std::uint64_t forced) const {
    FlashOptions options;
    options.memory = memory_;
    options.disk.save = save_when::at_steps({forced});
    FlashCheckpointer run(root_, options);
    for (const std::uint64_t step : steps) {
      const Tree state = flash::state_at(step);
      run.save(step, {{"state", state}}).wait();
    }
    run.close();
  }

  [[nodiscard]] testing::CliResult agent(std::vector<std::string> words) const {
    words.insert(words.begin(), "agent");
    words.insert(words.end(), {"--memory", memory_});
    return run_cli(words);
  }

  [[nodiscard]] nlohmann::json status() const {
    const testing::CliResult result = agent({"status", "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    return nlohmann::json::parse(result.out);
  }

  [[nodiscard]] testing::CliResult run_program(const std::vector<std::string>& program) const {
    std::vector<std::string> words = {"agent", "--memory", memory_, "--root", root_, "--"};
    words.insert(words.end(), program.begin(), program.end());
    return run_cli(words);
  }

  /// Waits, for some seconds at most.
  template <class Predicate>
  static bool comes_true(const Predicate& predicate) {
    for (int looks = 0; looks < 500; ++looks) {
      if (predicate()) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  testing::TempDir folder_;
  std::unique_ptr<testing::TempDir> above_;
  fs::path memory_;
  fs::path root_ = folder_ / "run";
};

TEST_F(AgentCommand, TellsWhatThereIs) {
  save({1, 2}, 1);

  const nlohmann::json seen = status();
  EXPECT_EQ(seen.at("root"), root_.string());
  EXPECT_EQ(seen.at("agent"), 0);
  EXPECT_EQ(seen.at("has_ended"), true);
  ASSERT_EQ(seen.at("images").size(), 2u);
  EXPECT_EQ(seen.at("images")[0].at("step"), 1);
  EXPECT_EQ(seen.at("images")[0].at("on_disk"), "yes");
  EXPECT_EQ(seen.at("images")[1].at("state"), "complete");
  EXPECT_EQ(seen.at("images")[1].at("on_disk"), "no");
  EXPECT_THAT(agent({"status"}).out, HasSubstr("has ended in order"));
}

TEST_F(AgentCommand, PersistsTheNewestOrAStep) {
  save({1, 2, 3}, 1);

  EXPECT_THAT(agent({"persist", "2"}).out, HasSubstr("step 2 is in "));
  EXPECT_THAT(agent({"persist"}).out, HasSubstr("step 3 is in "));
  EXPECT_THAT(agent({"persist"}).out, HasSubstr("nothing newer"));
  EXPECT_EQ(run_cli({"diff", root_ / "3", memory_ / "r00000" / "3"}).status, 0);

  const testing::CliResult refused = agent({"persist", "7"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("r00000/7"));
}

TEST_F(AgentCommand, CleansWhatIsOnDiskOrAll) {
  save({1, 2}, 1);

  EXPECT_THAT(agent({"clean"}).out, HasSubstr("1 image freed, 1 image left: step 2"));
  EXPECT_FALSE(fs::exists(memory_ / "r00000" / "1"));
  EXPECT_TRUE(fs::exists(memory_ / "r00000" / "2"));

  EXPECT_THAT(agent({"clean", "--all"}).out, HasSubstr("1 image freed"));
  EXPECT_TRUE(fs::is_empty(memory_ / "r00000" / ".cairn-spare"));
  EXPECT_TRUE(status().at("images").empty());
}

TEST_F(AgentCommand, ChecksBothPlaces) {
  const testing::CliResult result = run_cli({"agent", "check", "--memory", memory_, "--root", root_});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("memory "));
  EXPECT_THAT(result.out, HasSubstr("disk "));

  const testing::CliResult refused = run_cli({"agent", "check", "--memory", "/proc"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("not on a tmpfs"));

  save({1}, 1);
  testing::write_text(memory_ / ".cairn-memory", "{}");
  const testing::CliResult marked = run_cli({"agent", "check", "--memory", memory_, "--root", root_});
  EXPECT_EQ(marked.status, 1);
  EXPECT_THAT(marked.err, HasSubstr(".cairn-memory lacks its format"));
}

TEST_F(AgentCommand, AnswersInJson) {
  save({1, 2}, 1);

  const nlohmann::json checked = nlohmann::json::parse(agent({"check", "--json"}).out);
  EXPECT_EQ(checked.at("memory").at("path"), memory_.string());
  EXPECT_EQ(checked.at("disk").at("path"), root_.string());
  EXPECT_GT(checked.at("memory").at("free_bytes"), 0);
  for (const char* place : {"memory", "disk"}) {  // Of a tight place it takes little.
    const nlohmann::json& figures = checked.at(place);
    EXPECT_LE(figures.at("measured_bytes"), figures.at("free_bytes").get<std::uint64_t>() / 64);
  }
  EXPECT_TRUE(checked.at("problems").empty());
  const nlohmann::json cleaned = nlohmann::json::parse(agent({"clean", "--json"}).out);
  EXPECT_EQ(cleaned.at("retired"), nlohmann::json({1}));
  EXPECT_EQ(cleaned.at("left"), nlohmann::json({2}));
  const nlohmann::json persisted = nlohmann::json::parse(agent({"persist", "--json"}).out);
  EXPECT_EQ(persisted.at("step"), 2);
  EXPECT_EQ(persisted.at("path"), (root_ / "2").string());
  EXPECT_EQ(nlohmann::json::parse(agent({"persist", "--json"}).out), nlohmann::json::object());
}

TEST_F(AgentCommand, SaysOfAPlainDirectoryWhatItIsNot) {
  fs::create_directory(memory_);

  const testing::CliResult result = agent({"status"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("is not the memory of a run: it has no .cairn-memory"));
}

TEST_F(AgentCommand, SaysWhichStepIsInMemoryOnlyAtItsEnd) {
  save({1, 2}, 1);
  testing::write_text(root_ / "2", "somebody else's");

  const testing::CliResult result = run_program({"sh", "-c", "exit 3"});

  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.err, HasSubstr("step 2 is in memory only, in " + (memory_ / "r00000" / "2").string()));
  EXPECT_THAT(result.err, HasSubstr("cairn agent persist --memory " + memory_.string()));
}

TEST_F(AgentCommand, SaysWhereStepsAreInMemoryOnlyWhereTheDiskIsAway) {
  save({1, 2}, 1);
  fs::rename(root_, folder_ / "away");

  const testing::CliResult result =
      run_cli({"agent", "--memory", memory_, "--root", root_, "--grace", "0", "--", "sh", "-c", "exit 3"});

  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.err, HasSubstr("what is in " + (memory_ / "r00000").string() + " is in memory only"));
}

/// As by one in another pid namespace, a lock is held by no process that can be named here.
TEST_F(AgentCommand, SeesAnAgentThatItCannotName) {
  save({1}, 1);
  const fs::path place = memory_ / ".cairn-agent";
  testing::write_text(place, "");
  const int fd = ::open(place.c_str(), O_RDWR | O_CLOEXEC);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  ASSERT_EQ(::fcntl(fd, F_OFD_SETLK, &lock), 0);

  EXPECT_EQ(status().at("has_agent"), true);
  EXPECT_EQ(status().at("agent"), 0);
  EXPECT_THAT(agent({"status"}).out, HasSubstr("agent: one supervises it"));
  EXPECT_THAT(agent({"stop"}).err, HasSubstr("cannot be seen from here"));

  ::close(fd);
  EXPECT_EQ(status().at("has_agent"), false);
  EXPECT_THAT(agent({"status"}).out, HasSubstr("agent: none"));
}

TEST_F(AgentCommand, EndsAsItsProgramDoes) {
  EXPECT_EQ(run_program({"sh", "-c", "exit 3"}).status, 3);
  EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}).status, 137);
  EXPECT_THAT(run_program({"echo", "--json", "status"}).out, "--json status\n");
  const testing::CliResult missing = run_program({folder_ / "missing"});
  EXPECT_EQ(missing.status, 127);
  EXPECT_THAT(missing.err, HasSubstr("No such file"));
  EXPECT_EQ(run_program({folder_.path()}).status, 126);
}

TEST_F(AgentCommand, HasTheLastWordForItsProgram) {
  const testing::CliResult result = run_program({CAIRN_FLASHER, memory_, root_, "1000000", "0", "800"});

  EXPECT_EQ(result.status, 137);
  const nlohmann::json seen = status();
  EXPECT_EQ(seen.at("has_ended"), false);
  EXPECT_EQ(seen.at("images").back().at("on_disk"), "yes") << seen;
}

TEST_F(AgentCommand, ServesWhoeverUsesTheMemory) {
  testing::Process serving(CAIRN_CLI, {"agent", "--memory", memory_, "--root", root_, "--grace", "0.2"});
  {
    testing::Process program(CAIRN_FLASHER, {memory_, root_, "1000000", "0", "800"});
    static_cast<void>(program.finish());
  }
  EXPECT_TRUE(comes_true([&] { return status().at("images").back().at("on_disk") == "yes"; }));
  EXPECT_TRUE(comes_true([&] { return status().at("agent") == serving.id(); }));

  const testing::CliResult second = run_cli({"agent", "--memory", memory_, "--root", root_});
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.err, HasSubstr("process " + std::to_string(serving.id())));

  const testing::CliResult stopped = agent({"stop"});
  EXPECT_EQ(stopped.status, 0) << stopped.err;
  EXPECT_EQ(status().at("agent"), 0);
  EXPECT_EQ(agent({"stop"}).status, 1);
}

TEST_F(AgentCommand, IsStartedByAProgramAndEndsAfterIt) {
  {
    testing::Process program(CAIRN_FLASHER, {memory_, root_, "1000000", "0", "800", CAIRN_CLI});
    static_cast<void>(program.finish());
  }
  EXPECT_TRUE(comes_true([&] { return status().at("images").back().at("on_disk") == "yes"; }))
      << testing::read_text(memory_ / ".cairn-agent.log");
  EXPECT_TRUE(comes_true([&] { return status().at("agent") == 0; }));

  testing::Process program(CAIRN_FLASHER, {memory_, root_, "1000000", "0", "0", CAIRN_CLI});
  EXPECT_TRUE(comes_true([&] { return status().at("agent") != 0; })) << "each program starts its own";
  program.signal(SIGKILL);
  EXPECT_TRUE(comes_true([&] { return status().at("agent") == 0; }));
  EXPECT_EQ(status().at("images").back().at("on_disk"), "yes");
}

TEST_F(AgentCommand, EndsWithItsProgramWhenItIsToldTo) {
  testing::Process agent_and_program(CAIRN_CLI, {"agent", "--memory", memory_, "--root", root_, "--",
                                                 CAIRN_FLASHER, memory_, root_, "1000000", "0", "0"});
  ASSERT_TRUE(comes_true([&] { return agent({"status", "--json"}).status == 0; }));
  ASSERT_TRUE(comes_true([&] { return status().at("agent") == agent_and_program.id(); }));
  EXPECT_EQ(status().at("is_running"), true);

  EXPECT_EQ(agent({"stop"}).status, 0);

  EXPECT_EQ(status().at("is_running"), false);
  EXPECT_EQ(status().at("images").back().at("on_disk"), "yes");
}

TEST_F(AgentCommand, LeavesAProgramThatDoesNotEndWhenItIsToldTo) {
  save({1, 2}, 1);
  testing::Process agent_and_program(CAIRN_CLI, {"agent", "--memory", memory_, "--root", root_, "--grace",
                                                 "0.2", "--", "sh", "-c", "trap '' TERM; sleep 2"});
  ASSERT_TRUE(comes_true([&] { return status().at("agent") == agent_and_program.id(); }));

  EXPECT_EQ(agent({"stop"}).status, 0);

  EXPECT_EQ(status().at("images").back().at("on_disk"), "yes");
}

TEST_F(AgentCommand, RefusesWhatCannotBe) {
  EXPECT_THAT(agent({"--root", root_, "--grace", "-1"}).err, HasSubstr("--grace: '-1' is not"));
  EXPECT_THAT(agent({}).err, HasSubstr("--root is required"));
  EXPECT_EQ(agent({}).status, 2);
  EXPECT_THAT(run_cli({"agent", "status"}).err, HasSubstr("--memory"));

  save({1}, 1);
  const testing::CliResult other =
      run_cli({"agent", "status", "--memory", memory_, "--root", folder_.path()});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, HasSubstr("has run none"));
}

}  // namespace
}  // namespace cairn
