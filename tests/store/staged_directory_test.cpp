// SPDX-License-Identifier: Apache-2.0
#include "store/internal/staged_directory.hpp"

#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "io/faulty_syscalls.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/uuid.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::list_tree;
using ::testing::Not;
using ::testing::StartsWith;
using testing::TempDir;
using ::testing::UnorderedElementsAre;
using testing::write_text;

std::vector<std::string> names_in(const std::filesystem::path& root) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

class StagedDirectoryTest : public ::testing::Test {
 protected:
  StagedDirectoryTest() {
    io::EngineOptions options;
    options.syscalls = &syscalls_;
    options.threads = 2;
    engine_ = io::make_engine(io::EngineKind::threads, options).engine;
  }

  StagedDirectory create(const std::filesystem::path& target, StagedOptions options = {}) {
    return StagedDirectory::create(*engine_, target, std::move(options));
  }

  TempDir temp_;
  io::FaultySyscalls syscalls_;
  std::unique_ptr<io::Engine> engine_;
};

using StagedDirectoryCreate = StagedDirectoryTest;
using StagedDirectoryPublish = StagedDirectoryTest;
using StagedDirectoryOverwrite = StagedDirectoryTest;
using StagedDirectoryMarker = StagedDirectoryTest;

TEST_F(StagedDirectoryCreate, MakesATemporaryDirectoryBesideTheTarget) {
  const StagedDirectory staged = create(temp_ / "step");

  EXPECT_THAT(list_tree(temp_.path()), ElementsAre(".tmp-step-" + to_string(staged.uuid()),
                                                   ".tmp-step-" + to_string(staged.uuid()) + "/.owner"));
}

TEST_F(StagedDirectoryCreate, LeavesNothingWhenDropped) {
  { const StagedDirectory staged = create(temp_ / "step"); }

  EXPECT_THAT(list_tree(temp_.path()), IsEmpty());
}

TEST_F(StagedDirectoryCreate, RefusesATargetThatExists) {
  save_sample(*engine_, temp_ / "step", "old");

  EXPECT_THAT([&] { create(temp_ / "step"); }, Fails(Errc::already_exists, HasSubstr("step")));
}

TEST_F(StagedDirectoryCreate, RefusesAFileInTheTargetsPlace) {
  write_text(temp_ / "step", "mine");

  EXPECT_THAT([&] { create(temp_ / "step"); }, Fails(Errc::already_exists));
  EXPECT_THAT([&] { create(temp_ / "step", overwriting()); },
              Fails(Errc::already_exists, HasSubstr("is not a checkpoint, and is not overwritten")));
}

TEST_F(StagedDirectoryCreate, RefusesToOverwriteWhatIsNoCheckpoint) {
  std::filesystem::create_directory(temp_ / "home");
  write_text(temp_ / "home/diary", "mine");

  EXPECT_THAT([&] { create(temp_ / "home", overwriting()); },
              Fails(Errc::already_exists, HasSubstr("home is not a checkpoint")));
}

TEST_F(StagedDirectoryCreate, RefusesALinkInTheTargetsPlace) {
  save_sample(*engine_, temp_ / "step", "old");
  std::filesystem::create_directory_symlink("step", temp_ / "latest");

  EXPECT_THAT([&] { create(temp_ / "latest", overwriting()); },
              Fails(Errc::already_exists, HasSubstr("latest")));
}

TEST_F(StagedDirectoryCreate, NamesAParentThatIsMissing) {
  EXPECT_THAT([&] { create(temp_ / "runs/step"); },
              Fails(Errc::not_found, HasSubstr("runs for the checkpoint 'step'")));
}

TEST_F(StagedDirectoryCreate, NamesAParentThatIsAFile) {
  write_text(temp_ / "runs", "");

  EXPECT_THAT([&] { create(temp_ / "runs/step"); }, FailsWithErrno(ENOTDIR, HasSubstr("runs")));
}

TEST_F(StagedDirectoryCreate, RefusesTargetsWithoutAName) {
  for (const char* target : {"", "/", "..", "a/.", "a/..", "//"}) {
    EXPECT_THAT([&] { create(target); }, Fails(Errc::invalid_argument)) << target;
  }
}

TEST_F(StagedDirectoryCreate, AcceptsATrailingSlash) {
  save_sample(*engine_, temp_.path().string() + "/step/", "x");

  EXPECT_EQ(load_sample(temp_.path().string() + "/step/"), "x");
}

TEST_F(StagedDirectoryCreate, RefusesNamesThatLeaveNoRoomForTheirOwn) {
  EXPECT_THAT([&] { create(temp_ / std::string(201, 'a')); },
              Fails(Errc::invalid_argument, HasSubstr("200 bytes")));
  EXPECT_NO_THROW(create(temp_ / std::string(200, 'a')));
}

TEST_F(StagedDirectoryCreate, RefusesNamesOfTemporaries) {
  const std::string name = ".tmp-x-" + to_string(make_uuid(system_random));

  EXPECT_THAT([&] { create(temp_ / name); },
              Fails(Errc::invalid_argument, HasSubstr("a name that Cairn reserves")));
}

TEST_F(StagedDirectoryCreate, RefusesNamesOfWhatTrainingsKeep) {
  for (const char* name :
       {".cairn-pins", ".cairn-rewound", ".cairn-damaged", ".cairn-runs", ".cairn-later"}) {
    EXPECT_THAT([&] { create(temp_ / name); },
                Fails(Errc::invalid_argument, HasSubstr("a name that Cairn reserves")));
  }
}

TEST_F(StagedDirectoryCreate, ReportsAReadOnlyParent) {
  syscalls_.plan({io::Call::make_directory, 1, io::kForEver, -EROFS});

  EXPECT_THAT([&] { create(temp_ / "step"); }, FailsWithErrno(EROFS, HasSubstr("mkdir")));
}

TEST_F(StagedDirectoryCreate, ReportsAParentThatMayNotBeWritten) {
  syscalls_.plan({io::Call::make_directory, 1, io::kForEver, -EACCES});

  EXPECT_THAT([&] { create(temp_ / "step"); }, FailsWithErrno(EACCES, HasSubstr("mkdir")));
}

TEST_F(StagedDirectoryCreate, TriesAgainWhenARecoveryHoldsTheNewOwnerFile) {
  syscalls_.plan({io::Call::lock, 1, 1, -EAGAIN});

  EXPECT_NO_THROW(create(temp_ / "step"));
}

TEST_F(StagedDirectoryCreate, BeginsAgainWhenARecoveryRemovesTheDirectoryBeforeItIsOpened) {
  syscalls_.after_make_directory = [this] { recover(io::posix_syscalls(), temp_.path()); };

  const StagedDirectory staged = create(temp_ / "step");

  EXPECT_THAT(names_in(temp_.path()), ElementsAre(staged.path().filename()));
}

TEST_F(StagedDirectoryCreate, BeginsAgainAsOftenAsARecoveryThatRunsWithoutAPauseTakesTheDirectory) {
  int taken = 0;
  std::function<void()> take = [&] {
    recover(io::posix_syscalls(), temp_.path());
    if (++taken < 20) {
      syscalls_.after_make_directory = take;
    }
  };
  syscalls_.after_make_directory = take;

  EXPECT_NO_THROW(create(temp_ / "step"));

  EXPECT_EQ(taken, 20);
}

TEST_F(StagedDirectoryCreate, TakesItsNameAgainWhenItIsGivenAndARecoveryHoldsTheNewOwnerFile) {
  StagedOptions options;
  options.uuid = make_uuid(system_random);
  syscalls_.plan({io::Call::lock, 1, 1, -EAGAIN});

  EXPECT_NO_THROW(create(temp_ / "step", options));
}

TEST_F(StagedDirectoryCreate, TriesAgainWhenARecoveryHasRemovedTheNewOwnerFile) {
  syscalls_.before_lock = [this] { recover(io::posix_syscalls(), temp_.path()); };

  const StagedDirectory staged = create(temp_ / "step");

  EXPECT_THAT(list_tree(temp_.path()), ElementsAre(StartsWith(".tmp-step-"), HasSubstr("/.owner")));
}

TEST_F(StagedDirectoryCreate, WorksWithoutLocks) {
  syscalls_.plan({io::Call::lock, 1, io::kForEver, -ENOLCK});

  EXPECT_NO_THROW(create(temp_ / "step"));
}

TEST_F(StagedDirectoryPublish, MakesTheCheckpointVisible) {
  save_sample(*engine_, temp_ / "step", "hello");

  EXPECT_EQ(load_sample(temp_ / "step"), "hello");
  EXPECT_THAT(list_tree(temp_.path()), ElementsAre("step", "step/COMMIT", "step/checkpoint.json",
                                                   "step/chunks.xxh3", "step/state", "step/state/data"));
}

TEST_F(StagedDirectoryPublish, CanBeCalledOnce) {
  StagedDirectory staged = create(temp_ / "step");
  staged.publish(sample_manifest(), {});

  EXPECT_THAT([&] { staged.publish(sample_manifest(), {}); }, Fails(Errc::closed));
}

TEST_F(StagedDirectoryPublish, RefusesADigestThatDoesNotFitItsSize) {
  StagedDirectory staged = create(temp_ / "step");
  io::FileDigest digest = digest_of("state/data", "x");
  digest.chunks.push_back(1);

  EXPECT_THAT([&] { staged.publish(sample_manifest(), std::span(&digest, 1)); },
              Fails(Errc::invalid_argument, HasSubstr("2 chunk hashes for 1 bytes")));
}

TEST_F(StagedDirectoryPublish, GivesTheTargetToTheFirstOfTwoWriters) {
  StagedDirectory first = create(temp_ / "step");
  StagedDirectory second = create(temp_ / "step");
  first.publish(sample_manifest(), {});

  EXPECT_THAT([&] { second.publish(sample_manifest(), {}); }, Fails(Errc::already_exists, HasSubstr("step")));
  second.abandon();

  EXPECT_EQ(CommittedDirectory::open(io::posix_syscalls(), temp_ / "step").commit().uuid, first.uuid());
  EXPECT_THAT(names_in(temp_.path()), ElementsAre("step"));
}

TEST_F(StagedDirectoryPublish, LetsExactlyOneOfManyWritersWin) {
  constexpr int kWriters = 8;
  std::atomic<int> winners{0};
  std::atomic<int> losers{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kWriters; ++i) {
    threads.emplace_back([&, i] {
      try {
        save_sample(*engine_, temp_ / "step", std::to_string(i));
        ++winners;
      } catch (const Error& error) {
        losers += error.code() == Errc::already_exists ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  EXPECT_EQ(winners, 1);
  EXPECT_EQ(losers, kWriters - 1);
  EXPECT_THAT(names_in(temp_.path()), ElementsAre("step"));
}

TEST_F(StagedDirectoryPublish, DoesNotReplaceAnEmptyDirectoryThatAppeared) {
  StagedDirectory staged = create(temp_ / "step");
  std::filesystem::create_directory(temp_ / "step");

  EXPECT_THAT([&] { staged.publish(sample_manifest(), {}); }, Fails(Errc::already_exists));
}

TEST_F(StagedDirectoryPublish, SaysUnknownWhenTheParentCannotBeSynced) {
  StagedDirectory staged = create(temp_ / "step");
  syscalls_.plan({io::Call::sync, 2, 1, -EIO});  // The first is the staged directory itself.

  EXPECT_THAT([&] { staged.publish(sample_manifest(), {}); },
              Fails(Errc::commit_unknown, HasSubstr("step is visible, but fsync")));
  staged.abandon();
  EXPECT_EQ(CommittedDirectory::open(io::posix_syscalls(), temp_ / "step").commit().uuid, staged.uuid());
}

TEST_F(StagedDirectoryPublish, SaysUnknownWhenOnlyDirectoriesCanStillBeSynced) {
  StagedDirectory staged = create(temp_ / "step");
  syscalls_.plan({io::Call::sync, 3, 1, -EIO});  // After the two directories: XFS that has shut down.

  EXPECT_THAT([&] { staged.publish(sample_manifest(), {}); },
              Fails(Errc::commit_unknown, HasSubstr(".owner failed")));
}

TEST_F(StagedDirectoryPublish, BelievesARenameWhoseAnswerWasLost) {
  StagedDirectory staged = create(temp_ / "step");
  syscalls_.plan({io::Call::rename, 1, 1, -EEXIST, true});

  EXPECT_NO_THROW(staged.publish(sample_manifest(), {}));
  EXPECT_EQ(CommittedDirectory::open(io::posix_syscalls(), temp_ / "step").commit().uuid, staged.uuid());
}

TEST_F(StagedDirectoryPublish, KeepsCustomMetadata) {
  StagedDirectory staged = create(temp_ / "step");
  Manifest manifest = sample_manifest();
  manifest.custom_metadata = R"({"step":7})";

  staged.publish(manifest, {});

  EXPECT_EQ(CommittedDirectory::open(io::posix_syscalls(), temp_ / "step").manifest().custom_metadata,
            R"({"step":7})");
}

TEST_F(StagedDirectoryPublish, ReportsAFullDisk) {
  if (::mount("tmpfs", temp_.path().c_str(), "tmpfs", 0, "size=256k") != 0) {
    GTEST_SKIP() << "mounting a small tmpfs needs root: " << std::strerror(errno);
  }
  save_sample(*engine_, temp_ / "old", "old");

  EXPECT_THAT([&] { save_sample(*engine_, temp_ / "step", std::string(1 << 20, 'x')); },
              FailsWithErrno(ENOSPC, HasSubstr("state/data")));

  EXPECT_EQ(load_sample(temp_ / "old"), "old");
  EXPECT_THAT(names_in(temp_.path()), ElementsAre("old"));
  ::umount(temp_.path().c_str());
}

TEST_F(StagedDirectoryOverwrite, ReplacesTheOldCheckpoint) {
  save_sample(*engine_, temp_ / "step", "old");
  save_sample(*engine_, temp_ / "step", "new", overwriting());

  EXPECT_EQ(load_sample(temp_ / "step"), "new");
  EXPECT_THAT(names_in(temp_.path()), ElementsAre("step"));
}

TEST_F(StagedDirectoryOverwrite, MakesTheFirstCheckpointToo) {
  save_sample(*engine_, temp_ / "step", "new", overwriting());

  EXPECT_EQ(load_sample(temp_ / "step"), "new");
}

TEST_F(StagedDirectoryOverwrite, KeepsTheOldUntilTheNewIsDurable) {
  save_sample(*engine_, temp_ / "step", "old");
  {
    StagedDirectory staged = create(temp_ / "step", overwriting());
    syscalls_.plan({io::Call::sync, 2, io::kForEver, -EIO});
    EXPECT_THAT([&] { staged.publish(sample_manifest(), {}); }, Fails(Errc::commit_unknown));
    syscalls_.clear();
  }

  EXPECT_THAT(names_in(temp_.path()), UnorderedElementsAre("step", StartsWith(".tmp-step-")));
}

TEST_F(StagedDirectoryOverwrite, SaysWhatKeptItFromRemovingTheOld) {
  save_sample(*engine_, temp_ / "step", "old");
  StagedDirectory staged = create(temp_ / "step", overwriting());
  syscalls_.plan({io::Call::unlink, 2, 1, -EIO});  // The first removes the mark of ownership.

  staged.publish(sample_manifest(), {});

  EXPECT_THAT(staged.retirement_problem(), HasSubstr("unlink"));
}

TEST_F(StagedDirectoryOverwrite, DropsAReaderNothingHalf) {
  save_sample(*engine_, temp_ / "step", "old");
  const CommittedDirectory reader = CommittedDirectory::open(io::posix_syscalls(), temp_ / "step");
  save_sample(*engine_, temp_ / "step", "new", overwriting());

  EXPECT_THAT([&] { static_cast<void>(reader.read_verified("state/data", 100)); }, Fails(Errc::not_found));
}

/// A save that was given up before it could be seen: in each of the ways to publish.
class StagedDirectoryGivenUp : public StagedDirectoryTest {
 protected:
  /// Publishes over `old` with an answer of no; returns how often it was asked.
  int publish_refused(StagedOptions options) {
    int asked = 0;
    options.may_publish = [&asked] {
      ++asked;
      return false;
    };
    StagedDirectory staged = create(temp_ / "step", options);
    EXPECT_THAT([&] { staged.publish(sample_manifest(), {}); },
                Fails(Errc::cancelled, HasSubstr("step: the save was given up")));
    staged.abandon();
    return asked;
  }
};

TEST_F(StagedDirectoryGivenUp, IsNeverSeen) {
  EXPECT_EQ(publish_refused({}), 1);

  EXPECT_THAT(list_tree(temp_.path()), IsEmpty());
}

TEST_F(StagedDirectoryGivenUp, ReplacesNothing) {
  save_sample(*engine_, temp_ / "step", "old");

  EXPECT_EQ(publish_refused(overwriting()), 1);

  EXPECT_EQ(load_sample(temp_ / "step"), "old");
  EXPECT_THAT(names_in(temp_.path()), ElementsAre("step"));
}

TEST_F(StagedDirectoryGivenUp, IsNeverLinked) {
  StagedOptions options;
  options.commit_mode = CommitMode::marker;

  EXPECT_EQ(publish_refused(options), 1);

  EXPECT_THAT(list_tree(temp_.path()), IsEmpty());
}

TEST_F(StagedDirectoryGivenUp, IsAskedAgainBeforeEachOtherWayToPublish) {
  save_sample(*engine_, temp_ / "step", "old");
  syscalls_.lacks_rename_modes = true;
  int asked = 0;
  StagedOptions options = overwriting();
  options.may_publish = [&asked] { return ++asked < 3; };  // Exchange, rename; then the link of COMMIT.
  StagedDirectory staged = create(temp_ / "step", options);

  EXPECT_THAT([&] { staged.publish(sample_manifest(), {}); }, Fails(Errc::cancelled));
  staged.abandon();

  EXPECT_EQ(asked, 3);
  EXPECT_EQ(load_sample(temp_ / "step"), "old");
  EXPECT_THAT(names_in(temp_.path()), ElementsAre("step"));
}

TEST_F(StagedDirectoryOverwrite, LeavesWhatItReplacedWhereItMayNotRetireIt) {
  for (const bool has_exchange : {true, false}) {
    const TempDir temp;
    save_sample(*engine_, temp / "step", "old");
    syscalls_.lacks_rename_modes = !has_exchange;
    StagedOptions options = overwriting();
    std::vector<PublishStep> steps;
    options.on_step = [&steps](PublishStep step) { steps.push_back(step); };
    options.may_retire = [&steps] {
      EXPECT_EQ(steps.back(), PublishStep::sync_parent) << "nothing goes before the new one is durable";
      return false;
    };
    {
      StagedDirectory staged = create(temp / "step", options);
      staged.publish(sample_manifest(), {});
      EXPECT_THAT(staged.retirement_problem(), HasSubstr("left to recovery"));
    }
    EXPECT_EQ(names_in(temp.path()).size(), 2u) << "the old one and the new one";

    recover(io::posix_syscalls(), temp.path());

    EXPECT_EQ(names_in(temp.path()).size(), 1u);
    EXPECT_NO_THROW(CommittedDirectory::open(io::posix_syscalls(), temp / "step"));
  }
}

TEST_F(StagedDirectoryMarker, CommitsByLinkingWhenAsked) {
  StagedOptions options;
  options.commit_mode = CommitMode::marker;

  save_sample(*engine_, temp_ / "step", "hello", options);

  EXPECT_EQ(load_sample(temp_ / "step"), "hello");
  EXPECT_THAT(list_tree(temp_.path()), ElementsAre("step", "step/COMMIT", "step/checkpoint.json",
                                                   "step/chunks.xxh3", "step/state", "step/state/data"));
}

TEST_F(StagedDirectoryMarker, TakesOverWhereARenameMayReplace) {
  syscalls_.lacks_rename_modes = true;

  save_sample(*engine_, temp_ / "step", "hello");

  EXPECT_EQ(load_sample(temp_ / "step"), "hello");
  EXPECT_THAT(names_in(temp_.path()), ElementsAre("step"));
}

TEST_F(StagedDirectoryMarker, DoesNotReplaceAnEmptyDirectoryThatAppeared) {
  StagedOptions options;
  options.commit_mode = CommitMode::marker;
  StagedDirectory staged = create(temp_ / "step", options);
  std::filesystem::create_directory(temp_ / "step");
  std::filesystem::permissions(temp_ / "step", std::filesystem::perms::owner_all);

  EXPECT_THAT([&] { staged.publish(sample_manifest(), {}); }, Fails(Errc::already_exists));
  EXPECT_TRUE(std::filesystem::is_empty(temp_ / "step"));
}

TEST_F(StagedDirectoryMarker, OverwritesWithANewGeneration) {
  syscalls_.lacks_rename_modes = true;
  save_sample(*engine_, temp_ / "step", "one");
  syscalls_.plan({io::Call::rename, 1, 0, 0});

  save_sample(*engine_, temp_ / "step", "two", overwriting());

  EXPECT_EQ(load_sample(temp_ / "step"), "two");
}

TEST_F(StagedDirectoryMarker, OverwritesAgainAndAgain) {
  StagedOptions options = overwriting();
  options.commit_mode = CommitMode::marker;
  for (const char* text : {"one", "two", "three"}) {
    save_sample(*engine_, temp_ / "step", text, options);
  }

  EXPECT_EQ(load_sample(temp_ / "step"), "three");
  EXPECT_THAT(names_in(temp_.path()), ElementsAre("step.g3"));
}

TEST_F(StagedDirectoryMarker, RefusesATargetWhoseLaterGenerationExists) {
  StagedOptions options = overwriting();
  options.commit_mode = CommitMode::marker;
  save_sample(*engine_, temp_ / "step", "one", options);
  save_sample(*engine_, temp_ / "step", "two", options);

  EXPECT_THAT([&] { create(temp_ / "step"); }, Fails(Errc::already_exists, HasSubstr("step.g2")));
}

TEST_F(StagedDirectoryMarker, LeavesNothingWhenTheLinkFails) {
  StagedOptions options;
  options.commit_mode = CommitMode::marker;
  syscalls_.plan({io::Call::link, 1, 1, -EIO});

  EXPECT_THAT([&] { save_sample(*engine_, temp_ / "step", "x", options); },
              FailsWithErrno(EIO, HasSubstr("link")));
  EXPECT_THAT(list_tree(temp_.path()), IsEmpty());
}

TEST_F(StagedDirectoryMarker, ACheckpointCalledLikeAGenerationIsItsOwn) {
  save_sample(*engine_, temp_ / "step", "one");
  save_sample(*engine_, temp_ / "step.g2", "other");

  EXPECT_EQ(load_sample(temp_ / "step"), "one");
  EXPECT_EQ(load_sample(temp_ / "step.g2"), "other");
}

/// A system on which nobody may look at what is above the directory of the target.
class Fenced final : public testing::ForwardingSyscalls {
 public:
  int status_at(int directory, const char* name, io::FileStatus& status) noexcept override {
    return std::string_view(name).starts_with("../") ? -EACCES
                                                     : ForwardingSyscalls::status_at(directory, name, status);
  }
};

TEST(StagedDirectoryBelowAFence, IsMadeWithoutALookAtWhatIsAbove) {
  TempDir temp;
  Fenced syscalls;
  io::EngineOptions options;
  options.syscalls = &syscalls;
  const auto engine = io::make_engine(io::EngineKind::threads, options).engine;

  EXPECT_NO_THROW(StagedDirectory::create(*engine, temp / "step"));
}

TEST(StagedDirectoryBelowAFence, StillRefusesACheckpointThatItSees) {
  TempDir temp;
  write_text(temp / "COMMIT", "");
  write_text(temp / "checkpoint.json", "");
  Fenced syscalls;
  io::EngineOptions options;
  options.syscalls = &syscalls;
  const auto engine = io::make_engine(io::EngineKind::threads, options).engine;

  EXPECT_THAT([&] { StagedDirectory::create(*engine, temp / "step"); },
              Fails(Errc::invalid_argument, HasSubstr("lies in the checkpoint")));
}

}  // namespace
}  // namespace cairn::store
