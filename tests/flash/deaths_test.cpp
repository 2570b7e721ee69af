// SPDX-License-Identifier: Apache-2.0
// A program, an agent, a second program and a recovery die at each of their calls of the system, or at those that the
// seed chooses; the others begin at once. After each death what is left is read.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/api/maintain.hpp"

#include "flash/internal/run_images.hpp"
#include "flash/memory.hpp"
#include "flash/processes.hpp"
#include "flash/steps.hpp"
#include "support/sampling.hpp"
#include "support/sanitizer.hpp"

namespace cairn::flash {
namespace {

namespace fs = std::filesystem;

using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr std::uint64_t kSeldom = 1'000'000;  // So many steps between two that are due on disk.
constexpr std::uint64_t kAtNone = 1'000'000'000;
constexpr std::uint64_t kInSaves = 500;  // At this call a program without end has saved some steps.

class Deaths : public FlashProcesses {
 protected:
  [[nodiscard]] fs::path images() const { return memory() / kRankName; }

  [[nodiscard]] Started mend(const fs::path& checkpoints, std::uint64_t die_at = 0) const {
    return start({CAIRN_MENDER, checkpoints, std::to_string(die_at)});
  }

  /// A program has said this. It went on from what was reached at least: from memory, or from a later step on disk,
  /// which went straight there because no image could be taken.
  void hear(const std::vector<std::string>& said) {
    const std::optional<std::uint64_t> resumed = number_behind("resumed ", said);
    if (reached_ && !said.empty()) {
      EXPECT_THAT(said[0], StartsWith("resumed "));
      EXPECT_GE(resumed, reached_);
      EXPECT_TRUE(resumed > reached_ || said[0].ends_with("memory")) << said[0];
    }
    reached_ = std::max(reached_, std::max(resumed, number_behind("saved ", said)));
  }

  /// Reads all checkpoints of a directory. Returns the newest step.
  [[nodiscard]] std::optional<std::uint64_t> read_all(const fs::path& checkpoints) const {
    std::optional<std::uint64_t> newest;
    for (const auto& entry : fs::directory_iterator(checkpoints)) {
      const std::string name = entry.path().filename();
      if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
        const std::uint64_t step = std::stoull(name);
        EXPECT_EQ(load(entry.path(), {}, *context_), state_at(step)) << entry.path();
        newest = std::max(newest, std::optional(step));
      }
    }
    return newest;
  }

  /// Removes all but a few of the steps on disk: each is read after each death.
  void remove_old_steps() const {
    constexpr std::uint64_t kKept = 8;
    std::vector<std::uint64_t> steps;
    for (const auto& entry : fs::directory_iterator(root())) {
      const std::string name = entry.path().filename();
      if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
        steps.push_back(std::stoull(name));
      }
    }
    std::ranges::sort(steps, std::greater{});
    for (std::size_t at = kKept; at < steps.size(); ++at) {
      fs::remove_all(root() / std::to_string(steps[at]));
    }
  }

  [[nodiscard]] static std::vector<std::string> unfinished(const fs::path& checkpoints) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(checkpoints)) {
      const std::string name = entry.path().filename();
      if (name.starts_with(".tmp-") || name.starts_with(".trash-")) {
        names.push_back(name);
      }
    }
    return names;
  }

  /// Has somebody die at a sample of so many calls, and looks at what is left.
  void at_each(const std::string& who, std::optional<std::uint64_t> calls,
               const std::function<void(std::uint64_t call)>& die) {
    ASSERT_TRUE(calls) << who << " has not come to its end";
    constexpr std::uint64_t kInCi = testing::kHasSanitizer ? 4 : 12;
    const testing::Sample sample(std::max<std::uint64_t>(1, *calls / kInCi));
    std::uint64_t deaths = 0;
    for (std::uint64_t call = 1; call <= *calls; ++call) {
      if (!sample.takes(call)) {
        continue;
      }
      SCOPED_TRACE(::testing::Message() << who << " dies at call " << call << " of " << *calls);
      die(call);
      const std::optional<std::uint64_t> on_disk = read_all(root());
      EXPECT_GE(std::max(read_all(images()), on_disk), reached_);
      ASSERT_FALSE(HasFailure());
      remove_old_steps();
      ++deaths;
    }
    std::cout << "flash: " << deaths << " deaths of " << who << ", 0 images torn or lost" << std::endl;
  }

  /// Nothing is left over but what the next save may use.
  void expect_clean() const {
    mend(images())->await_end();
    mend(root())->await_end();
    EXPECT_THAT(unfinished(images()), IsEmpty());
    EXPECT_THAT(unfinished(root()), IsEmpty());
    static_cast<void>(RunImages(memory(), root(), *context_).clean(true));
    EXPECT_EQ(read_all(images()), std::nullopt);
    EXPECT_TRUE(fs::is_empty(images() / ".cairn-spare"));
  }

  std::optional<std::uint64_t> reached_;  // A program has said that this step is in memory.
};

TEST_F(Deaths, OfAProgramThatSavesAndPersists) {
  constexpr std::uint64_t kSteps = 4;
  const std::vector<std::string> whole = start(flasher(2, kSteps))->finish();
  hear(whole);

  at_each("a program that saves and persists", number_behind("closed ", whole),
          [&](std::uint64_t call) { hear(start(flasher(2, kSteps, call))->finish()); });

  expect_clean();
}

TEST_F(Deaths, OfAProgramThatGoesBack) {
  const auto newest = [&] { return std::max(read_all(images()), read_all(root())); };
  const auto reach = [&] {  // Two steps are in memory, and the newest is on disk.
    const std::optional<std::uint64_t> resumed =
        number_behind("resumed ", start(flasher(kSeldom, 2))->finish());
    EXPECT_GE(resumed, reached_);
    static_cast<void>(RunImages(memory(), root(), *context_).persist_newest([](const std::exception&) {}));
    return newest().value();
  };
  const auto go_back = [&](std::uint64_t die_at) {
    std::vector<std::string> words = flasher(kSeldom, 1, die_at);
    words.insert(words.end(), {"", "1"});  // By one step; then it saves one.
    return start(words)->finish();
  };
  const std::uint64_t first = reach();
  const std::vector<std::string> whole = go_back(0);
  EXPECT_EQ(number_behind("back ", whole), first - 1);
  EXPECT_EQ(number_behind("saved ", whole), first);
  EXPECT_EQ(read_all(root()), 0u) << "the newest was set aside";

  at_each("a program that goes back", number_behind("closed ", whole), [&](std::uint64_t call) {
    const std::uint64_t before = reach();
    const std::vector<std::string> said = go_back(call);
    EXPECT_GE(number_behind("resumed ", said).value_or(before), before);
    EXPECT_LE(newest(), before);
    reached_ = before - 1;
  });

  expect_clean();
}

TEST_F(Deaths, OfAProgramThatGoesOnBesideLastWords) {
  hear(start(flasher(kSeldom, 0, kInSaves))->finish());
  const std::vector<std::string> whole = start(flasher(kSeldom, 2))->finish();
  hear(whole);

  at_each("a program that goes on beside last words", number_behind("closed ", whole),
          [&](std::uint64_t call) {
            hear(start(flasher(kSeldom, 0, kInSaves))->finish());
            const Started agent = start_agent({"/bin/true"});
            hear(start(flasher(kSeldom, 2, call))->finish());
            agent->await_end();
          });

  expect_clean();
}

TEST_F(Deaths, OfAnAgentBesideTheNextProgram) {
  hear(start(flasher(kSeldom, 0, kInSaves))->finish());
  const std::vector<std::string> said = start_agent({"/bin/true"}, 0, "100", kAtNone)->finish();
  EXPECT_GE(read_all(root()), reached_);

  at_each("an agent with the last word", number_behind("calls ", said), [&](std::uint64_t call) {
    const Started first = start(flasher(kSeldom, 0, kInSaves));
    first->await_end();
    const Started agent = start_agent({"/bin/true"}, 0, "100", call);
    hear(first->finish());
    hear(start(flasher(kSeldom, 1))->finish());
    agent->await_end();
  });

  hear(start(flasher(kSeldom, 0, kInSaves))->finish());
  static_cast<void>(start_agent({"/bin/true"})->finish());
  EXPECT_GE(read_all(root()), reached_) << "what agents have left that died keeps nobody from it";
  expect_clean();
}

TEST_F(Deaths, OfARecoveryBesideTheNextProgram) {
  hear(start(flasher(2, 0, kInSaves))->finish());
  const std::vector<std::string> said = mend(images(), kAtNone)->finish();
  EXPECT_THAT(unfinished(images()), IsEmpty());

  at_each("a recovery", number_behind("mended ", said), [&](std::uint64_t call) {
    hear(start(flasher(2, 0, kInSaves + call))->finish());
    mend(images(), call)->await_end();
    mend(images())->await_end();
    EXPECT_THAT(unfinished(images()), IsEmpty());
    const Started beside = mend(images(), call);
    hear(start(flasher(2, 2))->finish());
    beside->await_end();
  });

  expect_clean();
}

}  // namespace
}  // namespace cairn::flash
