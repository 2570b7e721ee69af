// SPDX-License-Identifier: Apache-2.0
// docs/tool.md names every member of every answer.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/cairn.hpp"
#include "cairn/flash/flash_checkpointer.hpp"
#include "cairn/training/checkpointer.hpp"

#include "cli/checkpoints.hpp"
#include "cli/run_cli.hpp"
#include "flash/steps.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace cairn::cli {
namespace {

using nlohmann::json;
using testing::run_cli;
using testing::TempDir;

/// The members that the page has below the heading of each command.
std::map<std::string, std::vector<std::string>> documented() {
  std::istringstream page(testing::read_text(testing::test_data() / ".." / ".." / "docs" / "tool.md"));
  std::map<std::string, std::vector<std::string>> members;
  std::string command;
  const auto quoted = [](const std::string& line, std::size_t begin) {
    return line.substr(begin, line.find('`', begin) - begin);
  };
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("#")) {
      command = line.starts_with("### `") ? quoted(line, 5) : "";
    } else if (!command.empty() && line.starts_with("| `")) {
      members[command].push_back(quoted(line, 3));
    }
  }
  return members;
}

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> keys;
  std::istringstream text(path);
  for (std::string key; std::getline(text, key, '.');) {
    keys.push_back(key);
  }
  return keys;
}

/// A path that ends in a point is that of an empty list: the member says more.
bool matches(const std::string& member, const std::string& path) {
  const std::vector<std::string> asked = split(member);
  const std::vector<std::string> keys = split(path);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (asked[i] == "**" || (i == keys.size() && path.ends_with('.'))) {
      return true;
    }
    const bool is_open = i + 1 < asked.size() && asked[i + 1] == "**";
    const bool fits = i < keys.size() && (asked[i] == "*" || asked[i] == keys[i] ||
                                          (is_open && keys[i].starts_with(asked[i] + "[")));
    if (!fits) {
      return false;
    }
  }
  return asked.size() == keys.size();
}

TEST(ToolPagePatterns, StandForMembers) {
  EXPECT_TRUE(matches("a.*.b[]", "a.x.b[]"));
  EXPECT_TRUE(matches("values.**", "values[][]"));
  EXPECT_TRUE(matches("metrics.**", "metrics.loss"));
  EXPECT_FALSE(matches("a.*.b", "a.x.c"));
  EXPECT_FALSE(matches("a", "a.b"));
  EXPECT_TRUE(matches("a.*.b[].c", "a.x.b[]."));
  EXPECT_FALSE(matches("a.*.b[].c", "a.x.b[]"));
  EXPECT_FALSE(matches("a.*.b[].c", "a.x.d[]."));
}

/// The paths of all values of an answer, and of its empty lists.
void collect(const json& value, const std::string& path, std::vector<std::string>& paths) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      collect(member, path.empty() ? key : path + "." + key, paths);
    }
  } else if (value.is_array()) {
    if (value.empty()) {
      paths.push_back(path + "[].");
    }
    for (const json& element : value) {
      collect(element, path + "[]", paths);
    }
  } else {
    paths.push_back(path);
  }
}

class ToolPage : public ::testing::Test {
 protected:
  ToolPage() {
    testing::save_example(root_ / "7");
    testing::save_example(root_ / "8");
  }

  void expect_documented(const std::string& command, std::vector<std::string> words) const {
    words.emplace_back("--json");
    const testing::CliResult result = run_cli(words);
    const json answer = json::parse(result.out, nullptr, false);
    ASSERT_TRUE(answer.is_object()) << command << ": " << result.err;
    std::vector<std::string> paths;
    collect(answer, "", paths);
    EXPECT_FALSE(paths.empty()) << command;
    const std::vector<std::string>& members = documented_.at(command);
    for (const std::string& path : paths) {
      EXPECT_THAT(members, ::testing::Contains(::testing::Truly(
                               [&path](const std::string& member) { return matches(member, path); })))
          << "docs/tool.md does not name '" << path << "' of cairn " << command;
    }
  }

  TempDir root_;
  std::map<std::string, std::vector<std::string>> documented_ = documented();
};

TEST_F(ToolPage, NamesTheMembersOfWhatIsLookedAt) {
  expect_documented("ls ROOT", {"ls", root_.path()});
  expect_documented("ls CHECKPOINT", {"ls", "--all", root_ / "7"});
  expect_documented("inspect", {"inspect", "--stats", root_ / "7"});
  expect_documented("show", {"show", root_ / "7"});
  expect_documented("show", {"show", root_ / "7", "params/b"});
  expect_documented("show", {"show", root_ / "7", "model/note"});
  expect_documented("show", {"show", root_ / "7", "config"});
  expect_documented("verify", {"verify", root_ / "7"});
}

TEST_F(ToolPage, NamesTheMembersOfWhatIsDamaged) {
  std::filesystem::resize_file(root_ / "7" / "config" / "data.json", 1);

  expect_documented("ls ROOT", {"ls", root_.path()});
  expect_documented("ls CHECKPOINT", {"ls", root_ / "7"});
  expect_documented("inspect", {"inspect", root_ / "7"});
  expect_documented("verify", {"verify", root_.path()});
  expect_documented("recover", {"recover", root_.path()});
}

TEST_F(ToolPage, NamesTheMembersOfWhatIsDone) {
  expect_documented("recover", {"recover", "--remove", root_.path()});
  expect_documented("prune", {"prune", "--latest", "1", root_.path()});
  expect_documented("prune", {"prune", "--rewound", root_.path()});
  expect_documented("diff", {"diff", root_ / "7", root_ / "8"});
  expect_documented("export", {"export", root_ / "7", root_ / "out.safetensors"});
  expect_documented("reshard", {"reshard", root_ / "7", root_ / "9", "--parts", "2"});
  expect_documented("copy", {"copy", root_ / "7", root_ / "10"});
}

TEST_F(ToolPage, NamesTheMembersOfFilesOfOtherPrograms) {
  const std::string odd = testing::test_data() / "torch_more/odd.pt";
  const std::string distributed = testing::test_data() / "torch/dcp";
  for (const std::string& path : {odd, distributed}) {
    expect_documented("ls CHECKPOINT", {"ls", "--all", path});
    expect_documented("inspect", {"inspect", "--stats", path});
    expect_documented("show", {"show", path});
    expect_documented("verify", {"verify", path});
  }
  expect_documented("verify", {"verify", odd, distributed});
  expect_documented("diff", {"diff", "--top", "1", odd, distributed});
  expect_documented("export", {"export", "--leave-out", odd, root_ / "out.safetensors"});
  expect_documented("reshard", {"reshard", odd, root_ / "9", "--one-file"});
}

TEST_F(ToolPage, NamesTheMembersOfARunThatHasGoneBack) {
  Checkpointer run(root_ / "run");
  for (const std::uint64_t step : {1U, 2U}) {
    const Tree state = {{"x", 1}};
    run.save(step, {{"state", state}}).wait();
  }
  run.rewind(1);
  run.close();

  expect_documented("ls ROOT", {"ls", root_ / "run"});
  expect_documented("recover", {"recover", root_ / "run"});
  expect_documented("prune", {"prune", "--rewound", root_ / "run"});
  expect_documented("unrewind", {"unrewind", root_ / "run"});
}

TEST_F(ToolPage, NamesTheMembersOfStepsInMemory) {
  if (!std::filesystem::is_directory(testing::kSharedMemory)) {
    GTEST_SKIP() << "no " << testing::kSharedMemory;
  }
  const TempDir above(testing::kSharedMemory);
  const std::string memory = above / "run";
  FlashOptions options;
  options.memory = memory;
  options.disk.save = save_when::at_steps({1});
  {
    FlashCheckpointer run(root_ / "run", options);
    for (const std::uint64_t step : {1U, 2U}) {
      const Tree state = flash::state_at(step, 1 << 10);
      run.save(step, {{"state", state}}).wait();
    }
    run.close();
  }

  expect_documented("agent status", {"agent", "status", "--memory", memory});
  expect_documented("agent check", {"agent", "check", "--memory", memory});
  expect_documented("agent clean", {"agent", "clean", "--memory", memory});
  expect_documented("agent persist", {"agent", "persist", "--memory", memory});
}

}  // namespace
}  // namespace cairn::cli
