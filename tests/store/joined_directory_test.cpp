// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "store/internal/recovery.hpp"
#include "store/internal/remove_checkpoint.hpp"
#include "store/internal/verify.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/forwarding_syscalls.hpp"

namespace cairn::store {
namespace {

namespace fs = std::filesystem;

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::list_tree;
using testing::TempDir;

/// Counts calls, and fails renames to reserved names when it is told to.
class WatchedSyscalls final : public testing::ForwardingSyscalls {
 public:
  int rename_error = 0;
  int unlink_error = 0;
  int sync_error = 0;
  int file_sync_error = 0;  // As on an XFS that has shut down: directories are synced without an error.
  int syncs = 0;
  std::function<void(const testing::PassingCall&)> before = [](const testing::PassingCall&) {};

  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                io::RenameMode mode) noexcept override {
    return rename_error != 0
               ? -rename_error
               : ForwardingSyscalls::rename_at(old_directory, old_name, new_directory, new_name, mode);
  }

  int unlink_at(int directory, const char* name, bool is_directory) noexcept override {
    return unlink_error != 0 ? -unlink_error : ForwardingSyscalls::unlink_at(directory, name, is_directory);
  }

 private:
  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    before(call);
    syncs += call.kind == testing::CallKind::sync;
    return call.kind == testing::CallKind::sync && sync_error != 0 ? -sync_error : call.make();
  }

  int sync(int fd) noexcept override {
    io::FileStatus what;
    const bool is_file = status(fd, what) == 0 && what.kind == io::FileKind::regular;
    return is_file && file_sync_error != 0 ? -file_sync_error : ForwardingSyscalls::sync(fd);
  }
};

/// A save of which rank 0 has made the directory, and rank 3 joins it.
class JoinedDirectory : public ::testing::Test {
 protected:
  JoinedDirectory() { make_primary(); }

  void make_primary() {
    StagedOptions options = overwriting();
    options.uuid = uuid_;
    primary_.emplace(StagedDirectory::create(*engine_, target_, std::move(options)));
    primary_->make_directory("state");
    primary_->make_directory(kTablesName);
  }

  static std::unique_ptr<io::Engine> make_engine(io::Syscalls& syscalls) {
    io::EngineOptions options;
    options.syscalls = &syscalls;
    return io::make_engine(io::EngineKind::threads, options).engine;
  }

  /// The directory of a rank 0 that could not remove it, as if it had met what others were still writing.
  [[nodiscard]] StagedDirectory let_go() {
    primary_.reset();
    stubborn_.unlink_error = ENOTEMPTY;
    StagedOptions options;
    options.uuid = uuid_;
    StagedDirectory primary = StagedDirectory::create(*stubborn_engine_, target_, std::move(options));
    primary.make_directory("state");
    primary.abandon();
    return primary;
  }

  [[nodiscard]] StagedDirectory join(JoinOptions options = {}) {
    options.uuid = uuid_;
    options.rank = 3;
    return StagedDirectory::join(*joining_engine_, open_target(watched_, target_), std::move(options));
  }

  /// Rank 3 has written "theirs" and says so.
  [[nodiscard]] std::vector<FileEntry> prepare(StagedDirectory& joined) {
    write_sample_file(joined, "state/other", "theirs");
    const io::FileDigest digest = digest_of("state/other", "theirs");
    std::vector<FileEntry> entries = joined.prepare(std::span(&digest, 1));
    joined.hand_over();
    return entries;
  }

  void publish(const std::vector<FileEntry>& others) {
    write_sample_file(*primary_, "state/data", "ours");
    const io::FileDigest digest = digest_of("state/data", "ours");
    Manifest manifest = sample_manifest();
    manifest.world_size = 4;
    primary_->publish(manifest, std::span(&digest, 1), others);
  }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TempDir directory_;
  fs::path target_ = directory_ / "step";
  WatchedSyscalls watched_;
  WatchedSyscalls stubborn_;
  const Uuid uuid_ = make_uuid(system_random);
  std::unique_ptr<io::Engine> engine_ = io::make_engine(io::EngineKind::threads).engine;
  std::unique_ptr<io::Engine> joining_engine_ = make_engine(watched_);
  std::unique_ptr<io::Engine> stubborn_engine_ = make_engine(stubborn_);
  std::optional<StagedDirectory> primary_;
};

TEST_F(JoinedDirectory, HasATableOfItsOwn) {
  StagedDirectory joined = join();
  publish(prepare(joined));

  const auto opened = CommittedDirectory::open(io::posix_syscalls(), target_);
  EXPECT_EQ(opened.read_verified("state/other", 100), "theirs");
  EXPECT_EQ(opened.read_verified("state/data", 100), "ours");
  EXPECT_EQ(opened.find("state/other")->rank, 3u);
  EXPECT_THAT(list_tree(target_), ElementsAre(".chunks", ".chunks/r00003.xxh3", "COMMIT", "checkpoint.json",
                                              "chunks.xxh3", "state", "state/data", "state/other"));
  EXPECT_TRUE(verify(io::posix_syscalls(), target_, {}).is_sound());
}

TEST_F(JoinedDirectory, LeavesACheckpointThatCanBeRemoved) {
  {
    StagedDirectory joined = join();
    publish(prepare(joined));
    primary_.reset();
  }

  const RemovalReport report = remove_checkpoint(io::posix_syscalls(), target_, system_random);

  EXPECT_THAT(report.kept, IsEmpty());
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(JoinedDirectory, NamesADamagedTableOfARank) {
  StagedDirectory joined = join();
  publish(prepare(joined));
  testing::write_text(target_ / ".chunks/r00003.xxh3", "12345678");

  const auto opened = CommittedDirectory::open(io::posix_syscalls(), target_);

  EXPECT_THAT([&] { static_cast<void>(opened.digest("state/other")); },
              Fails(Errc::checksum_mismatch, HasSubstr(".chunks/r00003.xxh3: the hashes of 'state/other'")));
  EXPECT_EQ(opened.read_verified("state/data", 100), "ours");
  fs::remove(target_ / ".chunks/r00003.xxh3");
  const VerifyReport report = verify(io::posix_syscalls(), target_, {});
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_EQ(report.problems[0].file, ".chunks/r00003.xxh3");
}

TEST_F(JoinedDirectory, IsLookedForUntilItCanBeSeen) {
  fs::rename(primary_->path(), directory_ / "hidden");
  int looks = 0;
  JoinOptions options;
  options.look_again = [&] {
    if (++looks == 3) {
      fs::rename(directory_ / "hidden", primary_->path());
    }
    return looks < 10;
  };

  const StagedDirectory joined = join(options);

  EXPECT_EQ(looks, 3);
  EXPECT_EQ(joined.path(), primary_->path());
}

TEST_F(JoinedDirectory, IsNotFoundWhereItIsAnotherDirectory) {
  fs::rename(primary_->path(), directory_ / "hidden");

  EXPECT_THAT([&] { static_cast<void>(join()); }, Fails(Errc::not_found, HasSubstr("rank 0 created")));
}

TEST_F(JoinedDirectory, RefusesOneOfAnotherSave) {
  testing::write_text(primary_->path() / ".owner", encode_owner(this_process(make_uuid(system_random))));

  EXPECT_THAT([&] { static_cast<void>(join()); }, Fails(Errc::malformed_metadata, HasSubstr(".owner")));
}

TEST_F(JoinedDirectory, SyncsWhatItHasMade) {
  StagedDirectory joined = join();
  write_sample_file(joined, "state/other", "theirs");
  const io::FileDigest digest = digest_of("state/other", "theirs");
  watched_.syncs = 0;

  static_cast<void>(joined.prepare(std::span(&digest, 1)));

  EXPECT_EQ(watched_.syncs, 2);  // Of state and .chunks, in which it has made names.
}

TEST_F(JoinedDirectory, HasNothingToSyncWhereItHasWrittenNothing) {
  StagedDirectory joined = join();
  watched_.syncs = 0;

  EXPECT_THAT(joined.prepare({}), IsEmpty());

  EXPECT_EQ(watched_.syncs, 0);
  EXPECT_THAT(list_tree(joined.path()), ElementsAre(".chunks", ".owner", "state"));
}

TEST_F(JoinedDirectory, RemovesOnlyItsOwnFilesWhenItIsAbandoned) {
  write_sample_file(*primary_, "state/data", "ours");
  StagedDirectory joined = join();
  write_sample_file(joined, "state/other", "theirs");

  joined.abandon();

  EXPECT_THAT(list_tree(primary_->path()), ElementsAre(".chunks", ".owner", "state", "state/data"));
  EXPECT_EQ(joined.abandonment_problem(), "");
}

TEST_F(JoinedDirectory, TakesTheRestWhenRankZeroHasLetGo) {
  const StagedDirectory primary = let_go();
  StagedDirectory joined = join();
  write_sample_file(joined, "state/other", "theirs");
  ASSERT_TRUE(fs::exists(primary.path() / "state"));

  joined.abandon();

  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(JoinedDirectory, IsNotLeftToRecoveryWhenAnotherRankHasBegunToRemoveIt) {
  const StagedDirectory primary = let_go();
  StagedDirectory joined = join();
  watched_.before = [&](const testing::PassingCall& call) {
    if (call.kind == testing::CallKind::open && std::string_view(call.name) == kOwnerName) {
      fs::remove_all(joined.path() / "state");
      fs::remove(joined.path() / kOwnerName);
    }
  };

  joined.abandon();

  EXPECT_EQ(joined.abandonment_problem(), "");
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(JoinedDirectory, IsNotLeftToRecoveryWhenAnotherRankHasRemovedIt) {
  const StagedDirectory primary = let_go();
  StagedDirectory joined = join();
  watched_.before = [&](const testing::PassingCall& call) {
    if (call.kind == testing::CallKind::open && std::string_view(call.name) == kOwnerName) {
      fs::remove_all(joined.path());
    }
  };

  joined.abandon();

  EXPECT_EQ(joined.abandonment_problem(), "");
}

TEST_F(JoinedDirectory, StaysAsItIsOnceItWasHandedOver) {
  {
    StagedDirectory joined = join();
    static_cast<void>(prepare(joined));
    joined.abandon();
  }

  EXPECT_THAT(list_tree(primary_->path()), Contains("state/other"));
}

TEST_F(JoinedDirectory, MustBeSeenByRankZeroAsItWasWritten) {
  StagedDirectory joined = join();
  const std::vector<FileEntry> entries = prepare(joined);
  fs::resize_file(primary_->path() / "state/other", 2);

  EXPECT_THAT([&] { publish(entries); },
              Fails(Errc::io_failure, HasSubstr("rank 3 has written 6 bytes, and rank 0 sees 2 bytes")));
}

TEST_F(JoinedDirectory, IsAbortedByARankThatHearsNothing) {
  StagedDirectory joined = join();
  const std::vector<FileEntry> entries = prepare(joined);

  EXPECT_EQ(joined.decide_alone(), LoneVerdict::aborted);

  EXPECT_ANY_THROW(publish(entries));
  primary_.reset();
  recover(io::posix_syscalls(), directory_.path(), {});
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(JoinedDirectory, TellsRankZeroThatItWasGivenUpAndNotThatTheDiskHasLostSomething) {
  for (const bool has_taken_back : {true, false}) {
    StagedDirectory joined = join();
    const std::vector<FileEntry> entries = prepare(joined);
    ASSERT_EQ(joined.decide_alone(), LoneVerdict::aborted);
    if (has_taken_back) {
      joined.take_back();
      joined.abandon();
    }

    EXPECT_THAT([&] { publish(entries); },
                Fails(Errc::peer_lost, HasSubstr("have heard nothing of rank 0 for too long")));
    primary_.reset();
    recover(io::posix_syscalls(), directory_.path(), {});
    make_primary();
  }
}

TEST_F(JoinedDirectory, IsAbortedByAllRanksAlike) {
  StagedDirectory first = join();
  StagedDirectory second = join();
  static_cast<void>(prepare(first));
  second.hand_over();

  EXPECT_EQ(first.decide_alone(), LoneVerdict::aborted);
  first.take_back();
  first.abandon();

  EXPECT_EQ(second.decide_alone(), LoneVerdict::aborted);
}

TEST_F(JoinedDirectory, IsFoundCommittedAndItsParentIsSynced) {
  StagedDirectory joined = join();
  publish(prepare(joined));
  watched_.syncs = 0;

  EXPECT_EQ(joined.decide_alone(), LoneVerdict::committed);

  EXPECT_EQ(watched_.syncs, 3);
  joined.abandon();
  EXPECT_EQ(load_sample(target_), "ours");
}

TEST_F(JoinedDirectory, IsUnknownWhereTheFileSystemHasShutDown) {
  StagedDirectory joined = join();
  publish(prepare(joined));
  watched_.file_sync_error = EIO;

  EXPECT_THAT([&] { static_cast<void>(joined.decide_alone()); },
              Fails(Errc::commit_unknown, HasSubstr("COMMIT failed")));
}

TEST_F(JoinedDirectory, IsUnknownWhereItsParentCannotBeSynced) {
  StagedDirectory joined = join();
  publish(prepare(joined));
  watched_.sync_error = EIO;

  EXPECT_THAT([&] { static_cast<void>(joined.decide_alone()); },
              Fails(Errc::commit_unknown, HasSubstr("the checkpoint is visible, but fsync")));
  EXPECT_EQ(load_sample(target_), "ours");
}

TEST_F(JoinedDirectory, GivesBackWhatAnOverwriteHasReplaced) {
  save_sample(*engine_, target_, "old");
  StagedDirectory joined = join();
  const std::vector<FileEntry> entries = prepare(joined);
  // Rank 0 dies between its exchange and the removal of the old checkpoint.
  const fs::path temporary = primary_->path();
  publish(entries);
  save_sample(*engine_, directory_ / "older", "old");
  fs::rename(directory_ / "older", temporary);

  EXPECT_EQ(joined.decide_alone(), LoneVerdict::committed);

  EXPECT_EQ(names(), (std::vector<std::string>{temporary.filename(), "step"}));
  EXPECT_EQ(load_sample(target_), "ours");
}

TEST_F(JoinedDirectory, IsUnknownWhereItCannotBeFound) {
  StagedDirectory joined = join();
  static_cast<void>(prepare(joined));
  fs::rename(primary_->path(), directory_ / "elsewhere");

  EXPECT_THAT([&] { static_cast<void>(joined.decide_alone()); }, Fails(Errc::commit_unknown));
}

TEST_F(JoinedDirectory, IsUnknownInMarkerMode) {
  JoinOptions options;
  options.commit_mode = CommitMode::marker;
  StagedDirectory joined = join(options);
  static_cast<void>(prepare(joined));

  EXPECT_THAT([&] { static_cast<void>(joined.decide_alone()); }, Fails(Errc::commit_unknown));

  EXPECT_TRUE(fs::exists(primary_->path()));
}

TEST_F(JoinedDirectory, IsUnknownWhereTheDiskDoesNotAnswer) {
  for (const int error : {EINVAL, EIO}) {
    StagedDirectory joined = join();
    joined.hand_over();
    watched_.rename_error = error;

    EXPECT_THAT([&] { static_cast<void>(joined.decide_alone()); }, Fails(Errc::commit_unknown)) << error;

    watched_.rename_error = 0;
  }
}

}  // namespace
}  // namespace cairn::store
