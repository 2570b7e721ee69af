// SPDX-License-Identifier: Apache-2.0
#include "store/internal/recovery.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <gmock/gmock.h>
#include <signal.h>
#include <spawn.h>

#include "io/faulty_syscalls.hpp"
#include "io/internal/engine.hpp"
#include "store/internal/uuid.hpp"
#include "store/names.hpp"
#include "store/owner.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using testing::list_tree;
using testing::TempDir;
using testing::write_text;

class RecoveryTest : public ::testing::Test {
 protected:
  RecoveryReport run_recovery(RecoveryOptions options = {}) {
    return recover(syscalls_, temp_.path(), options);
  }

  /// What recovery says about `name`.
  RecoveryEntry entry_of(const std::string& name, RecoveryOptions options = {}) {
    const RecoveryReport report = run_recovery(options);
    const auto found = std::find_if(report.entries.begin(), report.entries.end(),
                                    [&name](const RecoveryEntry& entry) { return entry.name == name; });
    return found == report.entries.end() ? RecoveryEntry() : *found;
  }

  /// A temporary directory as a process leaves it that died while it wrote.
  std::string make_abandoned(const Owner& owner, const std::string& owner_name = ".owner") {
    const std::string name = temporary_name("step", owner.uuid);
    std::filesystem::create_directories(temp_ / name / "state");
    write_text(temp_ / name / owner_name, encode_owner(owner));
    write_text(temp_ / name / "state/data", "half");
    return name;
  }

  bool exists(const std::string& name) { return std::filesystem::exists(temp_ / name); }

  TempDir temp_;
  io::FaultySyscalls syscalls_;
  std::unique_ptr<io::Engine> engine_ = io::make_engine(io::EngineKind::threads).engine;
};

Owner new_owner() {
  return this_process(make_uuid(system_random));
}

TEST_F(RecoveryTest, RemovesWhatADeadWriterLeft) {
  const std::string name = make_abandoned(new_owner());

  const RecoveryEntry entry = entry_of(name);

  EXPECT_EQ(entry.kind, EntryClass::abandoned);
  EXPECT_TRUE(entry.is_removed);
  EXPECT_FALSE(exists(name));
}

TEST_F(RecoveryTest, RemovesWhatIsLeftByDeadProcessesOfThisHostAndBootAlone) {
  const auto remove = [this](std::string_view name) {
    remove_left_by_dead_processes(io::Directory::open(syscalls_, temp_.path()),
                                  [name](std::string_view each) { return each == name; });
  };
  Owner dead = new_owner();
  ++dead.start_time;
  const std::string left = make_abandoned(dead);
  Owner far = dead;
  far.uuid = make_uuid(system_random);
  far.host = "another";
  Owner earlier = dead;
  earlier.uuid = make_uuid(system_random);
  earlier.boot_id = "another";
  Owner garbled = dead;
  garbled.uuid = make_uuid(system_random);
  std::set<std::string> kept = {make_abandoned(far), make_abandoned(earlier), make_abandoned(new_owner()),
                                make_abandoned(garbled)};
  write_text(temp_ / temporary_name("step", garbled.uuid) / ".owner", "garbled");

  remove("another");
  EXPECT_TRUE(exists(left)) << "it is not wanted";
  {
    const io::FileHandle mark = io::Directory::open(syscalls_, temp_ / left).open_file(".owner", O_RDWR);
    ASSERT_EQ(syscalls_.try_lock(mark.fd()), 0);
    remove("step");
    EXPECT_TRUE(exists(left)) << "somebody has its lock";
  }

  remove("step");

  EXPECT_FALSE(exists(left));
  for (const std::string& name : kept) {
    EXPECT_TRUE(exists(name + "/state/data")) << name;
  }
}

TEST_F(RecoveryTest, KeepsWhatIsBeingWritten) {
  StagedDirectory staged = StagedDirectory::create(*engine_, temp_ / "step");

  const RecoveryEntry entry = entry_of(staged.path().filename());

  EXPECT_EQ(entry.kind, EntryClass::live);
  EXPECT_NO_THROW(staged.publish(sample_manifest(), {}));
}

TEST_F(RecoveryTest, KeepsCheckpoints) {
  save_sample(*engine_, temp_ / "step", "x");

  EXPECT_EQ(entry_of("step").kind, EntryClass::committed);
  EXPECT_EQ(load_sample(temp_ / "step"), "x");
}

TEST_F(RecoveryTest, KeepsDamagedCheckpointsAndSaysSo) {
  save_sample(*engine_, temp_ / "step", "x");
  std::filesystem::resize_file(temp_ / "step/state/data", 0);

  const RecoveryEntry entry = entry_of("step");

  EXPECT_EQ(entry.kind, EntryClass::damaged);
  EXPECT_THAT(entry.note, HasSubstr("state/data"));
  EXPECT_TRUE(exists("step/state/data"));
}

TEST_F(RecoveryTest, KeepsACheckpointThatLostItsCommit) {
  save_sample(*engine_, temp_ / "step", "x");
  std::filesystem::remove(temp_ / "step/COMMIT");

  EXPECT_EQ(entry_of("step").kind, EntryClass::damaged);
  EXPECT_TRUE(exists("step/state/data"));
}

TEST_F(RecoveryTest, TouchesNothingForeign) {
  const std::string lookalike = temporary_name("step", make_uuid(system_random));
  const std::string claimed = temporary_name("step", make_uuid(system_random));
  const std::string trash = trash_name("step", make_uuid(system_random));
  for (const std::string& name : {lookalike, claimed, trash, std::string("notes")}) {
    std::filesystem::create_directory(temp_ / name);
    write_text(temp_ / name / "diary", "mine");
  }
  write_text(temp_ / claimed / ".owner", "alice");
  write_text(temp_ / "file", "mine");
  write_text(temp_ / temporary_name("file", make_uuid(system_random)), "mine");
  const auto before = list_tree(temp_.path());

  const RecoveryReport report = run_recovery();

  EXPECT_EQ(list_tree(temp_.path()), before);
  for (const RecoveryEntry& entry : report.entries) {
    EXPECT_EQ(entry.kind, EntryClass::foreign) << entry.name;
  }
}

TEST_F(RecoveryTest, FollowsNoLink) {
  TempDir outside;
  const Owner owner = new_owner();
  std::filesystem::create_directory(outside / "target");
  write_text(outside / "target/.owner", encode_owner(owner));
  std::filesystem::create_directory_symlink(outside / "target", temp_ / temporary_name("step", owner.uuid));
  const std::string abandoned = make_abandoned(new_owner());
  std::filesystem::create_directory_symlink(outside / "target", temp_ / abandoned / "link");

  run_recovery();

  EXPECT_TRUE(std::filesystem::exists(outside / "target/.owner"));
  EXPECT_TRUE(std::filesystem::is_symlink(temp_ / temporary_name("step", owner.uuid)));
  EXPECT_FALSE(exists(abandoned));
}

TEST_F(RecoveryTest, TakesAnOwnerBehindALinkForForeign) {
  const std::string name = temporary_name("step", make_uuid(system_random));
  std::filesystem::create_directory(temp_ / name);
  write_text(temp_ / "real", encode_owner(new_owner()));
  std::filesystem::create_symlink("../real", temp_ / name / ".owner");

  EXPECT_EQ(entry_of(name).kind, EntryClass::foreign);
  EXPECT_TRUE(exists(name));
}

TEST_F(RecoveryTest, RemovesWhatWasReplaced) {
  save_sample(*engine_, temp_ / "step", "old");
  const std::string name = temporary_name("step", make_uuid(system_random));
  std::filesystem::rename(temp_ / "step", temp_ / name);
  save_sample(*engine_, temp_ / "step", "new");

  const RecoveryEntry entry = entry_of(name);

  EXPECT_EQ(entry.kind, EntryClass::retired);
  EXPECT_FALSE(exists(name));
  EXPECT_EQ(load_sample(temp_ / "step"), "new");
}

TEST_F(RecoveryTest, RemovesEmptyTemporaries) {
  const std::string name = temporary_name("step", make_uuid(system_random));
  std::filesystem::create_directory(temp_ / name);

  EXPECT_TRUE(entry_of(name).is_removed);
}

TEST_F(RecoveryTest, RemovesWhatDiedBeforeItSaidWhoItWas) {
  const std::string name = temporary_name("step", make_uuid(system_random));
  std::filesystem::create_directory(temp_ / name);
  write_text(temp_ / name / ".owner", "");

  EXPECT_TRUE(entry_of(name).is_removed);
}

TEST_F(RecoveryTest, RemovesWhatHoldsNothingButASpoiltMark) {
  const std::string spoilt = temporary_name("step", make_uuid(system_random));
  std::filesystem::create_directory(temp_ / spoilt);
  write_text(temp_ / spoilt / ".owner", std::string(100, '\0'));  // As a power cut leaves it.

  EXPECT_TRUE(entry_of(spoilt).is_removed);
}

TEST_F(RecoveryTest, KeepsASpoiltMarkOfAnotherHost) {
  const std::string spoilt = temporary_name("step", make_uuid(system_random));
  std::filesystem::create_directory(temp_ / spoilt);
  write_text(temp_ / spoilt / ".owner", "cairn-ow");
  syscalls_.lies_on = io::FileSystem::network;

  EXPECT_EQ(entry_of(spoilt).kind, EntryClass::live);
}

TEST_F(RecoveryTest, RetiresAGenerationThatHasASuccessor) {
  StagedOptions options = overwriting();
  options.commit_mode = CommitMode::marker;
  save_sample(*engine_, temp_ / "step", "one", options);
  std::filesystem::copy(temp_ / "step", temp_ / "saved", std::filesystem::copy_options::recursive);
  save_sample(*engine_, temp_ / "step", "two", options);
  std::filesystem::rename(temp_ / "saved", temp_ / "step");  // As a crash before the retirement leaves it.
  mark_as_unfinished(temp_ / "step.g2");

  EXPECT_EQ(entry_of("step").kind, EntryClass::retired);
  EXPECT_FALSE(exists("step"));
  EXPECT_EQ(load_sample(temp_ / "step"), "two");
  EXPECT_FALSE(exists("step.g2/.owner")) << "the mark goes when what it stands for is done";
}

TEST_F(RecoveryTest, KeepsTheMarkWhileWhatWasReplacedCannotBeRemoved) {
  StagedOptions options = overwriting();
  options.commit_mode = CommitMode::marker;
  save_sample(*engine_, temp_ / "step", "one", options);
  std::filesystem::copy(temp_ / "step", temp_ / "saved", std::filesystem::copy_options::recursive);
  save_sample(*engine_, temp_ / "step", "two", options);
  std::filesystem::rename(temp_ / "saved", temp_ / "step");
  mark_as_unfinished(temp_ / "step.g2");
  syscalls_.plan({io::Call::rename, 1, io::kForEver, -EACCES});

  EXPECT_THAT(entry_of("step.g2").note, HasSubstr("what it has replaced could not be removed"));
  EXPECT_TRUE(exists("step.g2/.owner")) << "or the old one would be taken for a copy that somebody put there";

  syscalls_.clear();
  EXPECT_EQ(entry_of("step").kind, EntryClass::retired);
  EXPECT_FALSE(exists("step"));
}

TEST_F(RecoveryTest, KeepsTheOldGenerationWhenTheNewOneIsDamaged) {
  StagedOptions options = overwriting();
  options.commit_mode = CommitMode::marker;
  save_sample(*engine_, temp_ / "step", "one", options);
  std::filesystem::copy(temp_ / "step", temp_ / "saved", std::filesystem::copy_options::recursive);
  save_sample(*engine_, temp_ / "step", "two", options);
  std::filesystem::rename(temp_ / "saved", temp_ / "step");
  std::filesystem::resize_file(temp_ / "step.g2/state/data", 0);

  EXPECT_EQ(entry_of("step").kind, EntryClass::committed);
  EXPECT_TRUE(exists("step"));
}

TEST_F(RecoveryTest, RemovesAMarkerDirectoryThatWasNeverCommitted) {
  std::filesystem::create_directory(temp_ / "step");
  write_text(temp_ / "step/.uncommitted", encode_owner(new_owner()));
  write_text(temp_ / "step/checkpoint.json", "{}");

  EXPECT_EQ(entry_of("step").kind, EntryClass::abandoned);
  EXPECT_TRUE(list_tree(temp_.path()).empty());
}

TEST_F(RecoveryTest, RemovesTheMarkOfOwnershipThatACrashLeftInACheckpoint) {
  save_sample(*engine_, temp_ / "step", "x");
  write_text(temp_ / "step/.owner", encode_owner(new_owner()));

  EXPECT_EQ(entry_of("step").kind, EntryClass::committed);
  EXPECT_FALSE(exists("step/.owner"));
}

TEST_F(RecoveryTest, ChangesNothingWhenOnlyAsked) {
  const std::string name = make_abandoned(new_owner());
  RecoveryOptions options;
  options.dry_run = true;

  const RecoveryEntry entry = entry_of(name, options);

  EXPECT_EQ(entry.kind, EntryClass::abandoned);
  EXPECT_FALSE(entry.is_removed);
  EXPECT_TRUE(exists(name));
}

TEST_F(RecoveryTest, LeavesTheMarkOfACheckpointWhenOnlyAsked) {
  save_sample(*engine_, temp_ / "step", "x");
  write_text(temp_ / "step/.owner", encode_owner(new_owner()));
  RecoveryOptions options;
  options.dry_run = true;

  const RecoveryEntry entry = entry_of("step", options);

  EXPECT_EQ(entry.action, RecoveryAction::unmark);
  EXPECT_TRUE(exists("step/.owner"));
}

TEST_F(RecoveryTest, DoesWhatItSaidWhenOnlyAsked) {
  make_abandoned(new_owner());
  save_sample(*engine_, temp_ / "old", "x");
  std::filesystem::rename(temp_ / "old", temp_ / trash_name("old", make_uuid(system_random)));
  std::filesystem::create_directory(temp_ / temporary_name("step", make_uuid(system_random)));
  save_sample(*engine_, temp_ / "marked", "x");
  write_text(temp_ / "marked/.owner", encode_owner(new_owner()));
  std::filesystem::create_directory(temp_ / "notes");
  RecoveryOptions asked;
  asked.dry_run = true;

  const RecoveryReport plan = run_recovery(asked);
  const RecoveryReport done = run_recovery();

  ASSERT_EQ(plan.entries.size(), done.entries.size());
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    EXPECT_EQ(plan.entries[i].name, done.entries[i].name);
    EXPECT_EQ(plan.entries[i].action, done.entries[i].action) << plan.entries[i].name;
    EXPECT_EQ(done.entries[i].is_removed, done.entries[i].action == RecoveryAction::remove);
  }
}

TEST_F(RecoveryTest, KeepsACheckpointWhoseMarkCannotBeLookedAt) {
  save_sample(*engine_, temp_ / "step", "x");
  write_text(temp_ / "step/.owner", encode_owner(new_owner()));
  syscalls_.plan({io::Call::lock, 1, io::kForEver, -EIO});

  EXPECT_EQ(entry_of("step").kind, EntryClass::committed);
}

TEST_F(RecoveryTest, ComplainsOfWhatMayNotBeEnteredButNotOfLostAndFound) {
  const auto kinds_of = [this](const std::string& name) {
    std::filesystem::create_directory(temp_ / name);
    std::set<EntryClass> kinds;
    for (int first = 1; first < 8; ++first) {
      syscalls_.plan({io::Call::open, first, 1, -EACCES});
      try {
        kinds.insert(entry_of(name).kind);
      } catch (const Error&) {  // The root itself.
      }
      syscalls_.clear();
    }
    return kinds;
  };

  EXPECT_TRUE(kinds_of("closed").contains(EntryClass::unreadable));
  EXPECT_FALSE(kinds_of("lost+found").contains(EntryClass::unreadable));
}

TEST_F(RecoveryTest, WithoutLocksTrustsThePid) {
  Owner dead = new_owner();
  ++dead.start_time;
  const std::string gone = make_abandoned(dead);
  const std::string alive = make_abandoned(new_owner());
  syscalls_.plan({io::Call::lock, 1, io::kForEver, -ENOLCK});

  run_recovery();

  EXPECT_FALSE(exists(gone));
  EXPECT_TRUE(exists(alive));
}

TEST_F(RecoveryTest, KeepsWhatAnotherHostOfASharedFileSystemMayBeWriting) {
  Owner far = new_owner();
  far.host += "-other";
  const std::string name = make_abandoned(far);
  syscalls_.lies_on = io::FileSystem::network;
  RecoveryOptions all;
  all.other_hosts = true;

  EXPECT_EQ(entry_of(name).kind, EntryClass::live);
  EXPECT_TRUE(entry_of(name, all).is_removed);
}

TEST_F(RecoveryTest, RemovesNothingWhenTheRootCannotBeSynced) {
  const std::string name = make_abandoned(new_owner());
  syscalls_.plan({io::Call::sync, 2, 1, -EIO});

  EXPECT_THAT([&] { run_recovery(); }, FailsWithErrno(EIO, HasSubstr("fsync")));
  EXPECT_TRUE(exists(name));
}

TEST_F(RecoveryTest, MayItselfBeInterruptedAnywhere) {
  for (int first = 1; first < 50; ++first) {
    const std::string abandoned = make_abandoned(new_owner());
    save_sample(*engine_, temp_ / "step", "x");
    std::filesystem::rename(temp_ / "step", temp_ / temporary_name("step", make_uuid(system_random)));
    save_sample(*engine_, temp_ / "step", "y");
    save_sample(*engine_, temp_ / "gone", "x");
    std::filesystem::rename(temp_ / "gone", temp_ / trash_name("gone", make_uuid(system_random)));
    syscalls_.plan({io::Call::unlink, first, io::kForEver, -EIO});
    run_recovery();
    const bool is_hit = syscalls_.hits() > 0;
    syscalls_.clear();

    run_recovery();

    EXPECT_EQ(load_sample(temp_ / "step"), "y");
    std::filesystem::remove_all(temp_ / "step");
    EXPECT_TRUE(list_tree(temp_.path()).empty()) << "interrupted at unlink " << first;
    if (!is_hit) {
      return;
    }
  }
  FAIL() << "recovery never got through";
}

TEST_F(RecoveryTest, ReportsWhatItCouldNotRemove) {
  const std::string name = make_abandoned(new_owner());
  syscalls_.plan({io::Call::unlink, 1, io::kForEver, -EACCES});

  const RecoveryEntry entry = entry_of(name);

  EXPECT_FALSE(entry.is_removed);
  EXPECT_TRUE(entry.has_failed);
  EXPECT_THAT(entry.note, HasSubstr("unlink"));
}

TEST_F(RecoveryTest, RefusesARootThatIsMissing) {
  EXPECT_THAT([&] { recover(syscalls_, temp_ / "none"); }, Fails(Errc::not_found, HasSubstr("none")));
}

/// Runs `save_until_killed` in a process of its own. (A forked child of a process with threads may do next to nothing.)
class InterruptedSave {
 public:
  explicit InterruptedSave(const std::filesystem::path& target) {
    int ends[2];
    check(::pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno, "pipe2");
    output_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string program = CAIRN_SAVE_UNTIL_KILLED;
    std::string argument = target.string();
    char* const arguments[] = {program.data(), argument.data(), nullptr};
    const int error = ::posix_spawn(&process_, program.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    check(error, program);
  }

  ~InterruptedSave() {
    kill();
    ::close(output_);
  }

  InterruptedSave(const InterruptedSave&) = delete;
  InterruptedSave& operator=(const InterruptedSave&) = delete;

  /// What the process says once it has written its file; empty when it ended instead.
  std::string await_ready() const {
    char text[16];
    const ssize_t bytes = ::read(output_, text, sizeof text);
    return {text, static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))};
  }

  void kill() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(std::exchange(process_, 0), nullptr, 0);
    }
  }

 private:
  static void check(int error, const std::string& what) {
    if (error != 0) {
      throw std::system_error(error, std::system_category(), what);
    }
  }

  pid_t process_ = 0;
  int output_ = -1;
};

TEST_F(RecoveryTest, CleansUpAfterAProcessThatWasKilledInTheMiddleOfASave) {
  InterruptedSave save(temp_ / "step");
  ASSERT_EQ(save.await_ready(), "ready\n");
  EXPECT_EQ(run_recovery().entries.at(0).kind, EntryClass::live);

  save.kill();

  EXPECT_TRUE(run_recovery().entries.at(0).is_removed);
  EXPECT_TRUE(list_tree(temp_.path()).empty());
}

}  // namespace
}  // namespace cairn::store
