// SPDX-License-Identifier: Apache-2.0
// What others do to images, the system to saves, and users to options.
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/api/copy.hpp"
#include "cairn/api/find.hpp"
#include "cairn/testing/local_ranks.hpp"

#include "base/internal/clock.hpp"
#include "base/internal/mutex.hpp"
#include "flash/failing_calls.hpp"
#include "flash/fixture.hpp"
#include "flash/internal/run_images.hpp"
#include "flash/steps.hpp"
#include "store/internal/program_claim.hpp"
#include "support/fails.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/manual_clock.hpp"
#include "support/process.hpp"
#include "support/temp_dir.hpp"

namespace cairn::flash {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FlashFaults : public FlashTest {
 protected:
  static constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

  /// The file with the arrays.
  [[nodiscard]] static fs::path large_file(const fs::path& checkpoint) {
    for (const auto& entry : fs::recursive_directory_iterator(checkpoint)) {
      if (entry.is_regular_file() && entry.file_size() > kMiB) {
        return entry.path();
      }
    }
    throw std::runtime_error("no large file in " + checkpoint.string());
  }

  /// Overwrites a byte where it lies.
  static void write_wildly(const fs::path& file) {
    std::fstream open(file, std::ios::in | std::ios::out | std::ios::binary);
    const auto byte = static_cast<char>(open.get() ^ 1);
    open.seekp(0);
    open.put(byte);
    ASSERT_TRUE(open.flush()) << file;
  }

  [[nodiscard]] static std::size_t mappings_below(const fs::path& directory, const std::string& process) {
    std::ifstream maps("/proc/" + process + "/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) {
      count += line.find(directory.native() + "/") == std::string::npos ? 0 : 1;
    }
    return count;
  }
};

TEST_F(FlashFaults, ASaveBeyondTheLimitIsSkippedAndToldOnce) {
  options_.memory_bytes = kMiB;
  start_again();

  EXPECT_TRUE(save(1).was_skipped());
  EXPECT_TRUE(save(2, forced()).was_skipped());

  EXPECT_THAT(run_->disk().steps(), ElementsAre(2));
  EXPECT_EQ(run_->latest_in_memory(), std::nullopt);
  EXPECT_EQ(told_, 1);
  EXPECT_THAT(last_told_, HasSubstr("step 1 is not kept in memory"));
  EXPECT_THAT(last_told_, HasSubstr("limit of the memory leaves, 1048576 bytes"));
}

TEST_F(FlashFaults, AStateThatOutgrowsTheLimitIsSkippedUntilItFitsAgain) {
  options_.memory_bytes = 12 * kMiB;
  start_again();
  save(1);
  save(2);

  const Tree large = state_at(3, 3 * kValues);
  EXPECT_TRUE(run_->save(3, {{"state", large}}).was_skipped());
  EXPECT_EQ(run_->latest_in_memory(), 2u);
  EXPECT_EQ(told_, 1);

  EXPECT_FALSE(save(4).was_skipped());
  EXPECT_FALSE(save(5).was_skipped());
  EXPECT_TRUE(fs::exists(image(4))) << "there is room for two";
}

TEST_F(FlashFaults, AStateThatFitsAloneTakesThePlaceOfBoth) {
  options_.memory_bytes = 12 * kMiB;
  start_again();
  save(1);
  save(2, forced()).wait();

  const Tree large = state_at(3, 2 * kValues);
  const FlashResponse response = run_->save(3, {{"state", large}});
  EXPECT_FALSE(response.was_skipped());
  response.wait();

  EXPECT_FALSE(fs::exists(image(2))) << "it is on disk";
  EXPECT_EQ(run_->load(3, {"state"}).take<Tree>("state"), large);
}

TEST_F(FlashFaults, ARootThatCannotBeMadeIsNamed) {
  options_.memory = *above_ / "other";

  EXPECT_THAT([&] { FlashCheckpointer(directory_ / "missing/run", options_, *context_); },
              FailsWithErrno(ENOENT, HasSubstr("missing/run")));
  EXPECT_THAT([&] { FlashCheckpointer("/proc/cairn-run", options_, *context_); },
              FailsWithErrno(ENOENT, HasSubstr("/proc/cairn-run")));
}

TEST_F(FlashFaults, AnAgentThatCannotBeStartedIsToldOf) {
  options_.start_agent = true;
  options_.agent_program = directory_ / "cairn";
  start_again();
  save(1);

  EXPECT_EQ(told_, 1);
  EXPECT_THAT(last_told_, HasSubstr(options_.agent_program.native()));
  EXPECT_EQ(run_->latest_in_memory(), 1u);
}

TEST_F(FlashFaults, SeveralRanksAreRefused) {
  options_.memory = *above_ / "other";
  const std::string failures =
      testing::failures_on_ranks(2, [&](const std::shared_ptr<coord::Coordinator>& coordinator) {
        ContextOptions how = small();
        how.coordinator = coordinator;
        const Context context(how);
        EXPECT_THAT([&] { FlashCheckpointer(directory_ / "other", options_, context); },
                    Fails(Errc::invalid_argument, HasSubstr("several ranks")));
      });
  EXPECT_THAT(failures, IsEmpty());
}

TEST_F(FlashFaults, TheDiskDecidesWhereItHasAnotherCheckpointOfTheSameStep) {
  save(1);
  run_.reset();
  const Tree other = state_at(9);
  save_checkpointables(root() / "1", {{"state", other}}, {}, *context_);

  const RunImages images(memory(), root(), *context_);
  EXPECT_EQ(images.persisted(1), Persisted::no);
  EXPECT_THAT([&] { images.persist(1); }, Fails(Errc::already_exists));
  start();
  auto resumed = run_->resume({"state"});
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->from, ResumedFrom::disk);
  EXPECT_EQ(resumed->loaded.take<Tree>("state"), other);
}

TEST_F(FlashFaults, AWildWriteKeepsNobodyFromSaving) {
  std::uint64_t step = 0;
  for (const char* name : {"COMMIT", "checkpoint.json", "chunks.xxh3"}) {
    save(++step);
    save(++step);
    write_wildly(image(step - 1) / name);
    write_wildly(image(step) / name);
    save(++step);
    save(++step);
  }
  write_wildly(large_file(image(step)));
  save(++step);

  EXPECT_EQ(run_->skipped(), 0u);
  start_again();
  expect_resumed(step, ResumedFrom::memory);
}

TEST_F(FlashFaults, AFileThatIsRemovedOrCutMakesAnImageADamagedOne) {
  std::uint64_t step = 0;
  const auto test = [&](const auto& damage) {
    save(++step);
    save(++step);
    damage(image(step));
    start_again();
    expect_resumed(step - 1, ResumedFrom::memory);
    save(step);
    save(++step);
    expect_resumed(step, ResumedFrom::memory);
  };
  test([&](const fs::path& image) { fs::remove(large_file(image)); });
  test([&](const fs::path& image) { fs::resize_file(large_file(image), kMiB); });
  test([&](const fs::path& image) { fs::remove(image / "checkpoint.json"); });
  test([&](const fs::path& image) { fs::remove(image / "COMMIT"); });
  EXPECT_EQ(run_->skipped(), 0u);
}

TEST_F(FlashFaults, TheLastWordPassesADamagedImageOver) {
  save(1);
  save(2);
  run_.reset();
  write_wildly(large_file(image(2)));

  std::vector<std::string> damaged;
  const RunImages images(memory(), root(), *context_);
  EXPECT_EQ(images.persist_newest([&](const std::exception& why) { damaged.emplace_back(why.what()); }), 1u);

  EXPECT_THAT(damaged, ElementsAre(HasSubstr("chunk")));
  EXPECT_EQ(load(root() / "1", {}, *context_), state_at(1));
}

TEST_F(FlashFaults, AnImageThatIsOlderThanASoundStepOnDiskIsCleanedAway) {
  save(1);
  save(2);
  run_.reset();
  save_checkpointables(root() / "2", {{"state", state_at(7)}}, {}, *context_);

  const RunImages::Cleaned cleaned = RunImages(memory(), root(), *context_).clean(false);

  EXPECT_THAT(cleaned.retired, ElementsAre(1));
  EXPECT_THAT(cleaned.left, ElementsAre(2)) << "another checkpoint has its number";
}

TEST_F(FlashFaults, ACopyOfLinksKeepsWhatItHas) {
  save(1);
  fs::copy(image(1), *above_ / "copy", fs::copy_options::recursive | fs::copy_options::create_hard_links);

  for (std::uint64_t step = 2; step <= 5; ++step) {
    save(step);
  }

  EXPECT_FALSE(fs::exists(image(1)));
  EXPECT_EQ(load(*above_ / "copy", {}, *context_), state_at(1));
}

TEST_F(FlashFaults, NothingIsLeftOfWhatAFileHeldBefore) {
  const auto tree_of = [](std::size_t first, std::size_t second) {
    Tree tree;
    tree["a"] = Array::adopt(std::vector<std::uint8_t>(first, 0xff));
    tree["b"] = Array::adopt(std::vector<std::uint8_t>(second, 0xff));
    return tree;
  };
  std::uint64_t step = 0;
  const std::array<std::pair<std::size_t, std::size_t>, 6> sizes = {{{3 * kMiB, 3 * kMiB},
                                                                     {3 * kMiB, 3 * kMiB},
                                                                     {kMiB + 1, 2 * kMiB + 3},
                                                                     {2 * kMiB + 5, kMiB + 7},
                                                                     {7, 2 * kMiB},
                                                                     {2 * kMiB, 1}}};
  for (const auto& [first, second] : sizes) {
    const Tree tree = tree_of(first, second);
    run_->save(++step, {{"state", tree}}).wait();
    const fs::path plain = directory_ / std::to_string(step);
    save_checkpointables(plain, {{"state", tree}}, {}, *context_);
    EXPECT_TRUE(testing::read_text(large_file(image(step))) == testing::read_text(large_file(plain))) << step;
  }
}

TEST_F(FlashFaults, AForkedChildHasNoClaimAndWritesNothing) {
  save(1);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(ends[1]);
    int status = 1;
    try {
      run_->save(2, {});
    } catch (const Error& error) {
      status = error.code() == Errc::closed ? 0 : 2;
    }
    char end = 0;
    status += ::read(ends[0], &end, 1) == 0 ? 0 : 4;  // Until its parent has done without it.
    ::_exit(status);
  }
  ::close(ends[0]);

  EXPECT_GT(mappings_below(memory(), "self"), 0u);
  EXPECT_EQ(mappings_below(memory(), std::to_string(child)), 0u);
  save(2);
  start_again();  // The claim was free.
  save(3);
  ::close(ends[1]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  save(4);
  expect_resumed(4, ResumedFrom::memory);
}

/// Looks at the memory at the moment of some calls.
class WatchedMemory final : public testing::ForwardingSyscalls {
 public:
  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                io::RenameMode mode) noexcept override {
    if (path_of(new_directory).filename() == ".cairn-spare") {
      const MutexLock lock(mutex_);
      emptied_.push_back(path_of(old_directory).parent_path());
      emptied_with_commit_ += fs::exists(emptied_.back() / "COMMIT") ? 1 : 0;
    }
    if (const auto act = new_name == complete ? std::exchange(on_complete, {}) : nullptr) {
      act();
    }
    return ForwardingSyscalls::rename_at(old_directory, old_name, new_directory, new_name, mode);
  }
  std::int64_t write_at(int fd, const std::byte* data, std::size_t size,
                        std::uint64_t offset) noexcept override {
    const auto claim = store::parse_claim({reinterpret_cast<const char*>(data), size});
    if (claim && claim->has_ended && on_end) {
      on_end();
    }
    return ForwardingSyscalls::write_at(fd, data, size, offset);
  }
  int try_lock_use(int fd, bool is_shared) noexcept override {
    if (const auto act = is_shared ? std::exchange(on_hold, {}) : nullptr) {
      act();
    }
    return ForwardingSyscalls::try_lock_use(fd, is_shared);
  }

  [[nodiscard]] std::vector<fs::path> emptied() const {
    const MutexLock lock(mutex_);
    return emptied_;
  }
  [[nodiscard]] std::size_t emptied_with_commit() const {
    const MutexLock lock(mutex_);
    return emptied_with_commit_;
  }

  std::string complete;               ///< The name of an image.
  std::function<void()> on_complete;  ///< Called once, when that is about to be complete.
  std::function<void()> on_end;       ///< Called when a program is about to say that it has ended.
  std::function<void()> on_hold;      ///< Called once, when somebody is about to hold an image.

 private:
  static fs::path path_of(int directory) {
    std::error_code ignored;
    return fs::read_symlink("/proc/self/fd/" + std::to_string(directory), ignored);
  }

  mutable Mutex mutex_;
  std::vector<fs::path> emptied_ CAIRN_GUARDED_BY(mutex_);
  std::size_t emptied_with_commit_ CAIRN_GUARDED_BY(mutex_) = 0;
};

TEST_F(FlashFaults, AnImageLosesItsNameBeforeItsFilesAndThemBeforeItsCommit) {
  const auto calls = std::make_shared<WatchedMemory>();
  ContextOptions how = telling(this);
  how.syscalls = calls;
  start_in(how);
  for (std::uint64_t step = 1; step <= 4; ++step) {
    save(step);
  }

  const std::vector<fs::path> emptied = calls->emptied();
  ASSERT_GE(emptied.size(), 2u);
  for (const fs::path& each : emptied) {
    EXPECT_THAT(each.filename().native(), ::testing::StartsWith(".trash-"));
  }
  EXPECT_EQ(calls->emptied_with_commit(), emptied.size());
}

TEST_F(FlashFaults, AProgramSaysThatItHasEndedOnceAllIsInItsPlace) {
  const auto calls = std::make_shared<WatchedMemory>();
  std::vector<bool> is_all_there;
  calls->on_end = [&] { is_all_there.push_back(fs::exists(image(2)) && fs::exists(root() / "2/COMMIT")); };
  ContextOptions how = telling(this);
  how.syscalls = calls;
  start_in(how);
  save(1);
  const Tree state = state_at(2);
  static_cast<void>(run_->save(2, {{"state", state}}, forced()));

  run_->close();

  EXPECT_THAT(is_all_there, ElementsAre(true));
}

TEST_F(FlashFaults, AMemoryThatIsRemovedInASaveIsToldOnceAndEndsNothing) {
  const auto calls = std::make_shared<WatchedMemory>();
  calls->complete = "2";
  calls->on_complete = [&] { fs::remove_all(memory()); };
  ContextOptions how = telling(this);
  how.syscalls = calls;
  start_in(how);
  save(1);
  const Tree state = state_at(2);
  static_cast<void>(run_->save(2, {{"state", state}}));

  EXPECT_TRUE(save(3).was_skipped());
  EXPECT_TRUE(save(4, forced()).was_skipped());

  EXPECT_EQ(told_, 1);
  EXPECT_THAT(last_told_, HasSubstr("r00000 was removed"));
  EXPECT_THAT(run_->disk().steps(), ElementsAre(4));
}

TEST_F(FlashFaults, AReaderSeesThatAnImageHasLostItsNameMeanwhile) {
  const auto calls = std::make_shared<WatchedMemory>();
  ContextOptions how = small();
  how.syscalls = calls;
  const Context reader(how);
  save(1);
  save(2);
  const fs::path trash = image(1).parent_path() / ".trash-1-0123456789abcdef0123456789abcdef";
  const auto retire = [&] { fs::rename(image(1), trash); };  // As a program does that is killed right after.

  calls->on_hold = retire;
  EXPECT_THAT([&] { static_cast<void>(load(image(1), {}, reader)); }, Fails(Errc::not_found));
  fs::rename(trash, image(1));
  calls->on_hold = retire;
  EXPECT_THAT([&] { copy_checkpoint(image(1), directory_ / "copy", {}, reader); }, Fails(Errc::not_found));
}

TEST_F(FlashFaults, AProgramThatClosesItsClaimKeepsItUntilAnotherOneComes) {
  const auto close_it = [&] { std::ifstream(memory() / "r00000/.cairn-program").get(); };
  save(1);
  close_it();
  save(2);

  close_it();
  testing::Process other(CAIRN_FLASHER, {memory(), root(), "1000000", "0", "0"});
  EXPECT_THAT(other.next_line(), HasSubstr("resumed 2 memory"));
  EXPECT_THAT(other.next_line(), HasSubstr("saved "));
  EXPECT_THAT(other.next_line(), HasSubstr("saved "));  // No image that this program knows is there any more.
  EXPECT_THAT([&] { save(3); },
              FailsWithErrno(EBUSY, HasSubstr("process " + std::to_string(other.id()) + " (rank 0) fills")));
  EXPECT_THAT(other.next_line(), HasSubstr("saved "));
}

TEST_F(FlashFaults, FilesAreWrittenWhereMappingIsRefused) {
  const auto calls = std::make_shared<FailingCalls>(root());
  ContextOptions how = telling(this);
  how.syscalls = calls;
  start_in(how);
  save(1);
  calls->refuses_mappings = true;
  start_again();
  for (std::uint64_t step = 2; step <= 5; ++step) {
    EXPECT_FALSE(save(step).was_skipped());
  }
  EXPECT_EQ(mappings_below(memory(), "self"), 0u);
  expect_resumed(5, ResumedFrom::memory);
}

TEST_F(FlashFaults, ViewsOfAnImageKeepIt) {
  save(1);
  Tree views;
  {
    LoadOptions mapped;
    TreeLoadOptions how;
    how.map = true;
    mapped.handler_options.set(how);
    views = cairn::load(image(1), AbstractTree(state_at(1)), mapped, *context_);
  }

  save(2);
  EXPECT_TRUE(save(3).was_skipped());
  EXPECT_EQ(views, state_at(1));
  views = Tree();

  EXPECT_FALSE(save(4).was_skipped());
  EXPECT_FALSE(fs::exists(image(1)));
}

/// A clock whose time of day is set.
class JumpingClock final : public Clock {
 public:
  [[nodiscard]] std::chrono::system_clock::time_point now() const override {
    return std::chrono::system_clock::now() + std::chrono::hours(hours.load());
  }
  [[nodiscard]] std::chrono::steady_clock::time_point steady_now() const override {
    return std::chrono::steady_clock::now();
  }

  std::atomic<int> hours{0};
};

TEST_F(FlashFaults, AClockThatIsSetChangesNothing) {
  const auto clock = std::make_shared<JumpingClock>();
  ContextOptions how = telling(this);
  how.clock = clock;
  start_in(how);
  std::uint64_t step = 0;
  for (const int hours : {0, -24, 24 * 3650, -24 * 3650, 1}) {
    clock->hours = hours;
    save(++step, forced()).wait();
    save(++step);
    EXPECT_TRUE(std::isfinite(run_->periods().expected_loss()));
  }
  EXPECT_EQ(run_->disk().latest(), step - 1);
  start_again();
  expect_resumed(step, ResumedFrom::memory);
}

TEST_F(FlashFaults, FilesThatMayNotBeThatLargeAreSkipped) {
  run_.reset();
  const auto run = [&](const std::string& limit, const char* steps) {
    testing::Process program("/bin/sh", {"-c", limit + " exec \"$0\" \"$@\"", CAIRN_FLASHER, memory(), root(),
                                         "1000000", steps, "0"});
    return program.finish();
  };
  EXPECT_THAT(run("", "1"), ElementsAre("resumed none", "saved 0", HasSubstr("closed")));

  EXPECT_THAT(run("trap '' XFSZ; ulimit -f 2048;", "3"),
              ElementsAre("resumed 0 memory", "saved 1", HasSubstr("closed")))
      << "what is on disk gives up its file, which is as large as it may not become";
}

}  // namespace
}  // namespace cairn::flash
