// SPDX-License-Identifier: Apache-2.0
#include "store/internal/committed_directory.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "io/attacked_syscalls.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/remove_checkpoint.hpp"
#include "store/internal/uuid.hpp"
#include "store/internal/verify.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

using testing::Fails;
using ::testing::HasSubstr;
using testing::read_text;
using testing::TempDir;
using testing::write_text;

class CommittedDirectoryTest : public ::testing::Test {
 protected:
  CommittedDirectoryTest() {
    text_[io::kChunkBytes + 3] = 'y';
    save_sample(*engine_, target_, text_);
  }

  CommittedDirectory open() { return CommittedDirectory::open(io::posix_syscalls(), target_); }

  /// Changes one byte of a file of the checkpoint.
  void flip(const std::string& name, std::size_t at) {
    std::string text = read_text(target_ / name);
    text[at] = static_cast<char>(text[at] ^ 1);
    write_text(target_ / name, text);
  }

  TempDir temp_;
  std::unique_ptr<io::Engine> engine_ = io::make_engine(io::EngineKind::threads).engine;
  std::filesystem::path target_ = temp_ / "step";
  std::string text_ = std::string(2 * io::kChunkBytes + 10, 'x');
};

TEST_F(CommittedDirectoryTest, ReadsWhatWasSaved) {
  EXPECT_EQ(open().read_verified("state/data", 1 << 30), text_);
  EXPECT_EQ(open().digest("state/data").chunks, digest_of("", text_).chunks);
  EXPECT_EQ(open().find("state/data")->size_bytes, text_.size());
  EXPECT_EQ(open().find("state/other"), nullptr);
}

TEST_F(CommittedDirectoryTest, TakesADigestWithoutALookAtTheOtherFiles) {
  StagedDirectory staged = StagedDirectory::create(*engine_, temp_ / "two");
  staged.make_directory("state");
  std::vector<io::FileDigest> digests;
  for (const char* file : {"state/a", "state/b"}) {
    write_sample_file(staged, file, file);
    digests.push_back(digest_of(file, file));
  }
  staged.publish(sample_manifest(), digests);
  const CommittedDirectory two = CommittedDirectory::open(io::posix_syscalls(), temp_ / "two");
  // Whoever adds up the sizes of all files for each of them takes quadratic time, and finds this one.
  const_cast<Manifest&>(two.manifest()).files[0].size_bytes = 100 * io::kChunkBytes;

  EXPECT_EQ(two.digest("state/b").chunks, digests[1].chunks);
}

TEST_F(CommittedDirectoryTest, IsNotTheManifestOfAnotherCommit) {
  CommitRecord commit = decode_commit(read_text(target_ / "COMMIT"), "COMMIT");
  commit.uuid = make_uuid(system_random);
  write_text(target_ / "COMMIT", encode_commit(commit));

  EXPECT_THAT([this] { open(); },
              Fails(Errc::malformed_metadata, HasSubstr("the uuid is not the one in COMMIT")));
}

TEST_F(CommittedDirectoryTest, FollowsALinkToACheckpoint) {
  std::filesystem::create_directory_symlink("step", temp_ / "latest");

  EXPECT_EQ(load_sample(temp_ / "latest"), text_);
}

TEST_F(CommittedDirectoryTest, OpensTheWorkingDirectory) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(target_);

  EXPECT_NO_THROW(CommittedDirectory::open(io::posix_syscalls(), "."));

  std::filesystem::current_path(before);
}

TEST_F(CommittedDirectoryTest, NamesTheChunkThatWasAltered) {
  flip("state/data", io::kChunkBytes + 100);

  EXPECT_THAT([&] { static_cast<void>(open().read_verified("state/data", 1 << 30)); },
              Fails(Errc::checksum_mismatch, HasSubstr("step/state/data: chunk 1 ")));
}

TEST_F(CommittedDirectoryTest, NamesAFileThatWasCut) {
  std::filesystem::resize_file(target_ / "state/data", 5);

  EXPECT_THAT([&] { static_cast<void>(open().open_file("state/data")); },
              Fails(Errc::checksum_mismatch, HasSubstr("state/data: 5 bytes instead of 2097162")));
}

TEST_F(CommittedDirectoryTest, NamesAFileThatIsGone) {
  std::filesystem::remove(target_ / "state/data");

  EXPECT_THAT([&] { static_cast<void>(open().open_file("state/data")); },
              Fails(Errc::not_found, HasSubstr("state/data")));
}

TEST_F(CommittedDirectoryTest, OpensNoFileThatTheCheckpointDoesNotList) {
  write_text(target_ / "state/extra", "x");

  EXPECT_THAT([&] { static_cast<void>(open().open_file("state/extra")); },
              Fails(Errc::not_found, HasSubstr("does not belong")));
  EXPECT_THAT([&] { static_cast<void>(open().digest("state/extra")); }, Fails(Errc::not_found));
}

TEST_F(CommittedDirectoryTest, RefusesAFifoInAFilesPlace) {
  std::filesystem::remove(target_ / "state/data");
  ASSERT_EQ(::mkfifo((target_ / "state/data").c_str(), 0600), 0);

  EXPECT_THAT([&] { static_cast<void>(open().open_file("state/data")); }, Fails(Errc::malformed_metadata));
}

TEST_F(CommittedDirectoryTest, RefusesALinkInAFilesPlace) {
  std::filesystem::rename(target_ / "state/data", temp_ / "elsewhere");
  std::filesystem::create_symlink(temp_ / "elsewhere", target_ / "state/data");

  EXPECT_THAT([&] { static_cast<void>(open().open_file("state/data")); },
              Fails(Errc::malformed_metadata, HasSubstr("symbolic link")));
}

TEST_F(CommittedDirectoryTest, RefusesALinkInADirectorysPlace) {
  std::filesystem::rename(target_ / "state", temp_ / "elsewhere");
  std::filesystem::create_directory_symlink(temp_ / "elsewhere", target_ / "state");

  EXPECT_THAT([&] { static_cast<void>(open().open_file("state/data")); },
              Fails(Errc::malformed_metadata, HasSubstr("symbolic link")));
}

TEST_F(CommittedDirectoryTest, NamesAlteredChunkHashes) {
  flip("chunks.xxh3", 3);

  EXPECT_THAT([&] { static_cast<void>(open().digest("state/data")); },
              Fails(Errc::checksum_mismatch, HasSubstr("chunks.xxh3: the hashes of 'state/data'")));
}

TEST_F(CommittedDirectoryTest, RefusesChunkHashesOfAnotherLength) {
  std::filesystem::resize_file(target_ / "chunks.xxh3", 16);

  EXPECT_THAT([&] { static_cast<void>(open().digest("state/data")); },
              Fails(Errc::malformed_metadata, HasSubstr("chunks.xxh3: 16 bytes instead of 24")));
}

TEST_F(CommittedDirectoryTest, NamesAManifestThatWasAltered) {
  flip("checkpoint.json", 40);

  EXPECT_THAT([&] { open(); }, Fails(Errc::checksum_mismatch, HasSubstr("checkpoint.json")));
}

TEST_F(CommittedDirectoryTest, NamesAManifestThatIsMissing) {
  std::filesystem::remove(target_ / "checkpoint.json");

  EXPECT_THAT([&] { open(); }, Fails(Errc::malformed_metadata, HasSubstr("step has no checkpoint.json")));
}

TEST_F(CommittedDirectoryTest, RefusesTheManifestOfAnotherCheckpoint) {
  save_sample(*engine_, temp_ / "other", text_);
  write_text(target_ / "checkpoint.json", read_text(temp_ / "other/checkpoint.json"));

  EXPECT_THAT([&] { open(); }, Fails(Errc::checksum_mismatch, HasSubstr("checkpoint.json")));
}

TEST_F(CommittedDirectoryTest, IsNotCommittedWithoutCommit) {
  std::filesystem::remove(target_ / "COMMIT");

  EXPECT_THAT([&] { open(); }, Fails(Errc::not_committed, HasSubstr("step has no COMMIT")));
}

TEST_F(CommittedDirectoryTest, NamesACommitThatWasAltered) {
  flip("COMMIT", 40);

  EXPECT_THAT([&] { open(); }, Fails(Errc::checksum_mismatch, HasSubstr("step/COMMIT")));
}

TEST_F(CommittedDirectoryTest, RefusesALaterFormat) {
  std::string commit = read_text(target_ / "COMMIT");
  commit[8] = 9;
  write_text(target_ / "COMMIT", commit);

  EXPECT_THAT([&] { open(); }, Fails(Errc::unsupported_version, HasSubstr("step/COMMIT: format 9")));
}

TEST_F(CommittedDirectoryTest, RefusesAFileThatIsTooLargeToRead) {
  EXPECT_THAT([&] { static_cast<void>(open().read_verified("state/data", 10)); },
              Fails(Errc::malformed_metadata, HasSubstr("at most 10")));
}

TEST_F(CommittedDirectoryTest, CheckSeesAFileOfAnotherSize) {
  const io::Directory root = io::Directory::open(io::posix_syscalls(), temp_.path());
  std::filesystem::resize_file(target_ / "state/data", 5);

  EXPECT_TRUE(check_commit(root, "step", false).is_committed);
  EXPECT_THAT(check_commit(root, "step", true).problem,
              HasSubstr("state/data is missing or of another size"));
}

TEST(CommittedDirectoryOpen, ReportsWhatIsNotThere) {
  TempDir temp;

  EXPECT_THAT([&] { CommittedDirectory::open(io::posix_syscalls(), temp / "none"); },
              Fails(Errc::not_found, HasSubstr("none")));
  EXPECT_THAT([&] { CommittedDirectory::open(io::posix_syscalls(), temp / "none/none"); },
              Fails(Errc::not_found));
}

TEST(CommittedDirectoryOpen, ReportsAFile) {
  TempDir temp;
  write_text(temp / "file", "x");

  EXPECT_THAT([&] { CommittedDirectory::open(io::posix_syscalls(), temp / "file"); },
              Fails(Errc::not_committed, HasSubstr("this is a file")));
}

TEST(CommittedDirectoryOpen, ReportsAnyOtherDirectory) {
  TempDir temp;

  EXPECT_THAT([&] { CommittedDirectory::open(io::posix_syscalls(), temp.path()); },
              Fails(Errc::not_committed));
}

TEST(CommittedDirectoryOpen, NeverTakesATemporaryForACheckpoint) {
  TempDir temp;
  const auto engine = io::make_engine(io::EngineKind::threads).engine;
  const std::string name = ".tmp-step-" + to_string(make_uuid(system_random));
  save_sample(*engine, temp / "step", "x");
  std::filesystem::rename(temp / "step", temp / name);

  EXPECT_THAT([&] { CommittedDirectory::open(io::posix_syscalls(), temp / name); },
              Fails(Errc::not_committed, HasSubstr("temporary directory")));
}

/// A checkpoint to which something happens while it is opened: before each of the calls that look up a name.
class OpeningWhile : public ::testing::TestWithParam<bool> {
 protected:
  OpeningWhile() { syscalls_.lacks_rename_modes = GetParam(); }  // Then generations replace each other.

  void save(const std::string& text) { save_sample(*engine_, target_, text, overwriting()); }

  /// Opens the checkpoint with `text` in it while `attack` is done, once at each moment; returns how many there are.
  template <class Attack, class Look>
  int at_each_moment(Attack attack, Look look) {
    for (int moment = 1;; ++moment) {
      SCOPED_TRACE(moment);
      save("old");
      attacked_.plan(moment, [&] {
        attack();
        return true;
      });
      look();
      if (!attacked_.is_reached()) {
        return moment - 1;
      }
    }
  }

  TempDir temp_;
  io::AttackedSyscalls syscalls_;  // Nobody attacks these.
  io::AttackedSyscalls attacked_;
  io::EngineOptions options_ = [this] {
    io::EngineOptions options;
    options.syscalls = &syscalls_;
    return options;
  }();
  std::unique_ptr<io::Engine> engine_ = io::make_engine(io::EngineKind::threads, options_).engine;
  std::filesystem::path target_ = temp_ / "step";
};

TEST_P(OpeningWhile, ItIsReplacedGivesTheOldOrTheNew) {
  Uuid before{};
  Uuid after{};
  const int moments = at_each_moment(
      [&] {
        before = CommittedDirectory::open(io::posix_syscalls(), target_).commit().uuid;
        save("new");
        after = CommittedDirectory::open(io::posix_syscalls(), target_).commit().uuid;
      },
      [&] {
        const Uuid opened = CommittedDirectory::open(attacked_, target_).commit().uuid;
        EXPECT_TRUE(!attacked_.is_reached() || opened == before || opened == after);
      });

  EXPECT_GE(moments, 4);
}

TEST_P(OpeningWhile, ItIsReplacedTwiceGivesOneOfThem) {
  at_each_moment(
      [&] {
        save("new");
        save("newer");
      },
      [&] { EXPECT_NO_THROW(CommittedDirectory::open(attacked_, target_)); });
}

TEST_P(OpeningWhile, ItIsReplacedFindsNoDamageInWhatIsGone) {
  VerifyOptions options;
  options.threads = 1;
  at_each_moment([&] { save("new"); },
                 [&] {
                   const VerifyReport report = verify(attacked_, target_, options);
                   EXPECT_TRUE(report.is_sound()) << report.problems.front().text;
                 });
}

TEST_P(OpeningWhile, ItIsReplacedFindsNoDamageToRecoverFrom) {
  RecoveryOptions options;
  options.dry_run = true;
  at_each_moment([&] { save("new"); },
                 [&] {
                   for (const RecoveryEntry& entry : recover(attacked_, temp_.path(), options).entries) {
                     EXPECT_NE(entry.kind, EntryClass::damaged) << entry.name << ": " << entry.note;
                   }
                 });
}

TEST_P(OpeningWhile, ASaveEndsTakesNothingForDisplaced) {
  RecoveryOptions options;
  options.dry_run = true;
  for (const bool is_removed : {false, true}) {
    std::optional<StagedDirectory> staged;
    const auto begin = [&] {
      std::filesystem::remove_all(target_);
      staged.emplace(StagedDirectory::create(*engine_, target_, {}));
    };
    const auto end = [&] {
      staged->publish(sample_manifest(), {});
      if (is_removed) {
        remove_checkpoint(syscalls_, target_);
      }
    };
    for (int moment = 1;; ++moment) {
      SCOPED_TRACE(moment);
      begin();
      attacked_.plan(moment, [&] {
        end();
        return true;
      });
      for (const RecoveryEntry& entry : recover(attacked_, temp_.path(), options).entries) {
        EXPECT_NE(entry.kind, EntryClass::displaced) << entry.name << ": " << entry.note;
        EXPECT_NE(entry.kind, EntryClass::damaged) << entry.name << ": " << entry.note;
      }
      if (!attacked_.is_reached()) {
        EXPECT_GE(moment, 3);
        break;
      }
    }
  }
}

TEST_P(OpeningWhile, ItIsRemovedSaysThatItIsNotThere) {
  at_each_moment([&] { remove_checkpoint(syscalls_, target_); },
                 [&] {
                   try {
                     static_cast<void>(CommittedDirectory::open(attacked_, target_));
                   } catch (const Error& error) {
                     EXPECT_EQ(error.code(), Errc::not_found) << error.what();
                   }
                 });
}

TEST_P(OpeningWhile, ItIsReplacedForEverSaysSo) {
  save("old");
  attacked_.plan(1, [&] {
    save("new");
    return false;
  });

  EXPECT_THAT([&] { CommittedDirectory::open(attacked_, target_); },
              Fails(Errc::not_found, HasSubstr("replaced")));
}

INSTANTIATE_TEST_SUITE_P(Modes, OpeningWhile, ::testing::Bool(), [](const auto& tested) {
  return std::string(tested.param ? "ByGenerations" : "ByExchange");
});

}  // namespace
}  // namespace cairn::store
