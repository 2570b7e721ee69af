// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/api/copy.hpp"
#include "cairn/api/find.hpp"
#include "cairn/flash/flash_checkpointer.hpp"

#include "api/fixture.hpp"
#include "flash/memory.hpp"
#include "flash/processes.hpp"
#include "flash/steps.hpp"
#include "io/internal/file.hpp"
#include "store/internal/program_claim.hpp"
#include "support/dice.hpp"
#include "support/number_from.hpp"
#include "support/process.hpp"
#include "support/sampling.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_dir.hpp"

namespace cairn::flash {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class KilledPrograms : public FlashProcesses {
 protected:
  [[nodiscard]] Started start(std::uint64_t disk_every = 1'000'000, std::uint64_t steps = 0) const {
    return FlashProcesses::start(flasher(disk_every, steps));
  }

  /// Runs words by a script.
  static std::unique_ptr<testing::Process> apart(std::string script, std::vector<std::string> words) {
    words.insert(words.begin(), {"-c", std::move(script), "sh"});
    return std::make_unique<testing::Process>("/bin/sh", std::move(words));
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

  /// What saves to disk have not finished.
  [[nodiscard]] std::vector<std::filesystem::path> unfinished() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(root())) {
      if (entry.path().filename().native().starts_with(".tmp-")) {
        found.push_back(entry.path());
      }
    }
    return found;
  }

  /// Starts programs, each in a run of its own, until one has died while it copied a step to disk.
  void die_while_persisting() const {
    std::filesystem::create_directory(root());
    // Threads make the calls in another order each time.
    for (std::uint64_t attempt = 0; unfinished().empty() && attempt < 240; ++attempt) {
      std::filesystem::remove_all(memory());
      std::filesystem::remove_all(root());
      std::filesystem::create_directory(root());
      const std::uint64_t call = 300 + attempt * 7 % 400;
      FlashProcesses::start(flasher(1, 4, call))->await_end();
      for (const std::filesystem::path& left : unfinished()) {
        std::error_code none;
        if (const auto bytes = std::filesystem::file_size(left / ".owner", none); none || bytes == 0) {
          std::filesystem::remove_all(
              left);  // It has died before it said whose that is, which is for `recover`.
        }
      }
    }
    if (unfinished().empty()) {
      GTEST_SKIP() << "none has died while it persisted";
    }
  }

  [[nodiscard]] std::unique_ptr<FlashCheckpointer> open() const {
    FlashOptions options;
    options.memory = memory();
    return std::make_unique<FlashCheckpointer>(root(), options, *context_);
  }
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

TEST_F(KilledPrograms, LeaveAMemoryThatTheNextTakesOverHoweverEarlyTheyDie) {
  constexpr std::uint64_t kCalls = 60;  // Until it has its mark and its claim.
  for (std::uint64_t call = 1; call <= kCalls; ++call) {
    FlashProcesses::start(flasher(1'000'000, 1, call))->await_end();

    EXPECT_NO_THROW(static_cast<void>(open())) << "call " << call;

    const std::filesystem::directory_iterator all(memory());
    EXPECT_EQ(std::distance(begin(all), end(all)), 2) << "call " << call;
    std::filesystem::remove_all(memory());
    std::filesystem::remove_all(root());
  }
}

TEST_F(KilledPrograms, LeaveWhatAnybodyCopiesToADisk) {
  const std::optional<std::uint64_t> last = kill_after(*start(), 4);
  ASSERT_TRUE(last);

  copy_checkpoint(memory() / "r00000" / std::to_string(*last), directory_ / "copy", {}, *context_);

  EXPECT_EQ(load(directory_ / "copy", {}, *context_), state_at(*last));
}

TEST_F(KilledPrograms, LeaveNothingOnDiskWhereTheNextRecovers) {
  die_while_persisting();
  for (const std::filesystem::path& left :
       unfinished()) {  // That is no step of the run, so it is left alone.
    std::filesystem::rename(left, root() / (".tmp-other-" + left.filename().native().substr(5)));
  }

  ResumeOptions how;
  how.recover = true;
  const std::optional<FlashResumed> resumed = open()->resume({"state"}, how);

  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->from, ResumedFrom::memory);
  EXPECT_THAT(unfinished(), ::testing::IsEmpty());
}

TEST_F(KilledPrograms, LeaveNothingOnDiskThatTheNextDoesNotRemove) {
  die_while_persisting();
  const std::filesystem::path other = root() / ".tmp-5-f81d4fae-7dec-41d0-a765-00a0c91e6bf6";
  std::filesystem::create_directory(other);
  testing::write_text(other / ".owner", "another program's");

  open()->wait();

  EXPECT_THAT(unfinished(), ::testing::ElementsAre(other));
}

TEST_F(KilledPrograms, LeaveNothingOnDiskThatAnAgentDoesNotRemove) {
  die_while_persisting();

  start_agent({"/bin/sh", "-c", "exit 1"})->await_end();

  EXPECT_THAT(unfinished(), ::testing::IsEmpty());
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

TEST_F(KilledPrograms, AreFollowedByThoseOfOtherContainers) {
  const auto start_apart = [&] {
    return apart("exec unshare --mount --pid --fork --kill-child \"$@\"",
                 {CAIRN_FLASHER, memory(), root(), "1000000", "0", "0"});
  };
  const std::unique_ptr<testing::Process> first = start_apart();
  if (first->next_line().empty()) {
    GTEST_SKIP() << "no namespaces of mounts and processes for this user";
  }
  const std::string saved = first->next_line();
  ASSERT_THAT(saved, StartsWith("saved "));
  const io::Directory images = io::Directory::open(io::posix_syscalls(), memory() / kRankName);
  EXPECT_FALSE(store::look_at_claim(images).is_free) << "its number there means nothing here";

  first->signal(SIGKILL);
  const std::string resumed = start_apart()->next_line();

  ASSERT_THAT(resumed, ::testing::EndsWith(" memory"));
  EXPECT_GE(std::stoull(resumed.substr(8)), std::stoull(saved.substr(6)));
}

TEST_F(KilledPrograms, FindATmpfsWithLargePagesAsGoodAsAny) {
  const std::string mount = "mount -t tmpfs -o huge=within_size,size=64m none " + above_->path().native();
  const std::vector<std::string> said =
      apart("exec unshare --mount --fork --kill-child sh -c '" + mount + " && exec \"$@\"' sh \"$@\"",
            {CAIRN_FLASHER, memory(), root(), "2", "5", "0"})
          ->finish();
  if (said.empty()) {
    GTEST_SKIP() << "this user may mount no tmpfs with large pages";
  }

  EXPECT_TRUE(number_behind("closed ", said));
  const std::vector<FoundCheckpoint> steps = list_checkpoints(root(), {}, *context_);
  EXPECT_FALSE(steps.empty());
  for (const FoundCheckpoint& each : steps) {
    EXPECT_EQ(load(each.path, {}, *context_), state_at(std::stoull(each.name)));
  }
}

TEST_F(KilledPrograms, KeepTheirDiskWhereNoImageFitsIntoTheMemory) {
  const std::string mount = "mount -t tmpfs -o size=4m none " + above_->path().native();
  const std::vector<std::string> said =
      apart("exec unshare --mount --fork --kill-child sh -c '" + mount + " && exec \"$@\"' sh \"$@\"",
            {CAIRN_FLASHER, memory(), root(), "2", "5", "0"})
          ->finish();
  if (said.empty()) {
    GTEST_SKIP() << "this user may mount no tmpfs";
  }

  EXPECT_TRUE(number_behind("closed ", said));
  EXPECT_FALSE(number_behind("saved ", said)) << "an image takes 5 MiB";
  EXPECT_EQ(load(root() / "4", {}, *context_), state_at(4));
}

/// Sizes change, and the files of images that are given up are kept for the next ones; twice, the second time with what
/// the first program has left.
TEST_F(KilledPrograms, TakeNoMoreThanTheirLimit) {
  constexpr std::uint64_t kLimit = std::uint64_t{24} << 20;
  const std::string run = "CAIRN_FLASH_LIMIT=" + std::to_string(kLimit) + " \"$@\" 20 0";
  const std::string script =
      "mount -t tmpfs -o size=200m none " + above_->path().native() + " && " + run + " && " + run;
  const std::vector<std::string> said =
      apart("exec unshare --mount --fork --kill-child sh -c '" + script + "' sh \"$@\"",
            {CAIRN_FLASHER, memory(), root(), "1000000"})
          ->finish();
  if (said.empty()) {
    GTEST_SKIP() << "this user may mount no tmpfs";
  }

  EXPECT_EQ(number_behind("saved ", said), 39u);
  std::size_t peaks = 0;
  for (const std::string& line : said) {
    if (line.starts_with("peak ")) {
      ++peaks;
      EXPECT_LE(std::stoull(line.substr(5)), kLimit);
      EXPECT_GE(std::stoull(line.substr(5)), std::uint64_t{18} << 20) << "a large one and the next";
    }
  }
  EXPECT_EQ(peaks, 2u);
}

/// The files of images are used again; small ones need memory that others may have taken.
TEST_F(KilledPrograms, GoOnWhereOthersHaveFilledTheMemory) {
  const std::string above = above_->path().native();
  const std::string script = "mount -t tmpfs -o size=32m none " + above +
                             " && \"$@\" 2 0 && { head -c 40M /dev/zero >" + above +
                             "/others; \"$@\" 5 0; rm " + above + "/others; } && \"$@\" 3 0";
  const std::vector<std::string> said =
      apart("exec unshare --mount --fork --kill-child sh -c '" + script + "' sh \"$@\" 2>/dev/null",
            {CAIRN_FLASHER, memory(), root(), "1000000"})
          ->finish();
  if (said.empty()) {
    GTEST_SKIP() << "this user may mount no tmpfs";
  }

  std::vector<std::string> closed;
  std::string newest;
  for (const std::string& line : said) {
    EXPECT_FALSE(line.starts_with("failed")) << line;
    if (line.starts_with("closed ")) {
      closed.push_back(line);
    } else if (line.starts_with("resumed ")) {
      EXPECT_EQ(line, newest.empty() ? "resumed none" : "resumed " + newest + " memory");
    } else {
      newest = line.substr(line.find(' ') + 1);
    }
  }
  EXPECT_EQ(closed.size(), 3u);
  EXPECT_GE(std::stoi(newest), 4) << "with room again, all are saved";
}

/// The system ends programs of a control group that has no more memory: images that were complete stay.
TEST_F(KilledPrograms, LeaveTheirStepsWhereTheirControlGroupHasNoMoreMemory) {
  const std::string script = R"(limit=$1; shift
    for group in /sys/fs/cgroup/memory/cairn-$$ /sys/fs/cgroup/cairn-$$; do
      mkdir $group 2>/dev/null || continue
      if { echo $limit >$group/memory.limit_in_bytes || echo $limit >$group/memory.max; } 2>/dev/null; then
        sh -c "echo \$\$ >$group/cgroup.procs && echo entered && exec \"\$@\"" sh "$@"
        rmdir $group
        exit
      fi
      rmdir $group
    done)";
  std::optional<std::uint64_t> reached;
  bool was_ended = false;
  for (const char* const limit : {"16M", "24M", "32M", "48M"}) {
    std::vector<std::string> words = flasher(1'000'000, 6);
    words.insert(words.begin(), limit);
    const std::vector<std::string> said = apart(script, words)->finish();
    if (said.empty()) {
      GTEST_SKIP() << "this user may limit no control group";
    }
    was_ended = was_ended || !number_behind("closed ", said);
    reached = std::max(reached, number_behind("saved ", said));
  }
  EXPECT_TRUE(was_ended) << "16 MiB are too little";

  const std::unique_ptr<FlashCheckpointer> next = open();
  std::optional<FlashResumed> resumed = next->resume({"state"});
  ASSERT_EQ(resumed.has_value(), reached.has_value());
  if (resumed) {
    EXPECT_GE(resumed->step, *reached);
    EXPECT_EQ(resumed->loaded.take<Tree>("state"), state_at(resumed->step));
  }
}

/// Programs are killed at moments that the dice choose, and the next ones begin at once. An agent serves meanwhile, and
/// is killed, too.
TEST_F(KilledPrograms, NeverGoBackBesideAgentsAndTheNext) {
  const std::uint64_t seed = testing::number_from("CAIRN_FLASH_SEED", testing::first_number());
  const std::uint64_t kills = testing::number_from("CAIRN_FLASH_KILLS", testing::kHasSanitizer ? 20 : 40);
  testing::Dice dice(seed);
  const auto serve = [&] { return start_agent({}); };
  Started agent = serve();
  std::unique_ptr<testing::Process> before;  // Being taken apart by the kernel.
  std::optional<std::uint64_t> reached;
  const auto note = [&reached](const std::string& line) {
    if (line.starts_with("saved ") || (line.starts_with("resumed ") && line != "resumed none")) {
      reached = std::max(reached, std::optional<std::uint64_t>(std::stoull(line.substr(line.find(' ') + 1))));
    }
  };
  const auto hear_the_last_of = [&note](std::unique_ptr<testing::Process>& dead) {
    if (dead) {
      const std::vector<std::string> rest = dead->finish();
      std::for_each(rest.begin(), rest.end(), note);
      dead.reset();
    }
  };
  std::uint64_t lost = 0;
  std::uint64_t resumptions = 0;
  for (std::uint64_t kill = 0; kill < kills; ++kill) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ", kill " << kill);
    std::unique_ptr<testing::Process> program = start(1 + dice.below(9));
    for (std::size_t lines = dice.below(6); lines > 0; --lines) {
      const std::string line = program->next_line();
      ASSERT_THAT(line, ::testing::Not(StartsWith("failed")));
      if (line.starts_with("resumed ")) {
        hear_the_last_of(before);
        ASSERT_TRUE(!reached || line != "resumed none");
        const std::optional<std::uint64_t> last = std::exchange(reached, std::nullopt);
        note(line);
        if (last) {  // One step was under way, or complete and not said yet; more are where some were skipped.
          ASSERT_GE(*reached, *last);
          lost += *reached == *last ? 1 : 0;
          ++resumptions;
        }
      }
      note(line);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(dice.below(20'000)));
    program->signal(SIGKILL);
    hear_the_last_of(before);
    before = std::move(program);
    if (dice.one_in(10)) {
      agent->signal(SIGKILL);
      agent = serve();
    }
  }
  hear_the_last_of(before);
  agent->signal(SIGTERM);
  static_cast<void>(agent->finish());

  const std::unique_ptr<FlashCheckpointer> next = open();
  std::optional<FlashResumed> resumed = next->resume({"state"});
  ASSERT_TRUE(resumed);
  EXPECT_GE(resumed->step, reached);
  EXPECT_TRUE(resumed->passed_over.empty());
  EXPECT_EQ(resumed->loaded.take<Tree>("state"), state_at(resumed->step));
  const std::vector<std::uint64_t> on_disk = next->disk().steps();
  for (const std::uint64_t step : on_disk) {
    EXPECT_EQ(next->disk().load(step, {"state"}).take<Tree>("state"), state_at(step));
  }
  std::cout << "flash: (seed " << seed << ") " << kills << " kills, " << resumed->step << " steps, "
            << on_disk.size() << " on disk, " << lost << " steps lost in " << resumptions << " resumptions"
            << std::endl;
}

}  // namespace
}  // namespace cairn::flash
