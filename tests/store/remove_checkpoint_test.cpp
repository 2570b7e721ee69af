// SPDX-License-Identifier: Apache-2.0
#include "store/internal/remove_checkpoint.hpp"

#include <array>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "io/attacked_syscalls.hpp"
#include "io/faulty_syscalls.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/recovery.hpp"
#include "store/names.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/temp_dir.hpp"
#include "support/unsynced_syscalls.hpp"

namespace cairn::store {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::list_tree;
using testing::TempDir;
using testing::write_text;

/// Saves two generations of one checkpoint, the first of which a crash has kept from being removed.
void save_generations(io::Engine& engine, const std::filesystem::path& target) {
  StagedOptions options = overwriting();
  options.commit_mode = CommitMode::marker;
  const std::filesystem::path aside = target.parent_path() / "aside";
  save_sample(engine, target, "first", options);
  std::filesystem::copy(target, aside, std::filesystem::copy_options::recursive);
  save_sample(engine, target, "newest", options);
  std::filesystem::rename(aside, target);
  mark_as_unfinished(target.parent_path() / (target.filename().string() + ".g2"));
}

/// Overwrites a checkpoint of two files, and leaves the old one as a save does that cannot remove it; `is_begun`: it
/// has removed one.
void save_beside_leftover(io::Engine& engine, const std::filesystem::path& target, bool is_begun) {
  const std::filesystem::path old = target.parent_path() / temporary_name("step", make_uuid(system_random));
  StagedDirectory staged = StagedDirectory::create(engine, target, {});
  staged.make_directory("state");
  write_sample_file(staged, "state/data", "first");
  write_sample_file(staged, "state/more", "first");
  const std::array<io::FileDigest, 2> digests = {digest_of("state/data", "first"),
                                                 digest_of("state/more", "first")};
  staged.publish(sample_manifest(), digests);
  std::filesystem::copy(target, old, std::filesystem::copy_options::recursive);
  save_sample(engine, target, "newest", overwriting());
  if (is_begun) {
    std::filesystem::remove(old / "state" / "data");
  }
}

class RemoveCheckpointTest : public ::testing::Test {
 protected:
  void remove() { remove_checkpoint(syscalls_, target_); }

  TempDir temp_;
  std::filesystem::path target_ = temp_ / "step";
  io::FaultySyscalls syscalls_{testing::unsynced_syscalls()};
  std::unique_ptr<io::Engine> engine_ = io::make_engine(io::EngineKind::threads).engine;
};

/// What other processes do meanwhile.
using Meanwhile = std::function<void(const std::filesystem::path& target)>;

class RemovalBeside : public ::testing::TestWithParam<std::pair<const char*, Meanwhile>> {
 protected:
  TempDir temp_;
  std::filesystem::path target_ = temp_ / "step";
  io::AttackedSyscalls attacked_{testing::unsynced_syscalls()};
  std::unique_ptr<io::Engine> engine_ = testing::unsynced_engine();
};

TEST_P(RemovalBeside, OthersEndsWithNothingLeft) {
  for (const bool has_generations : {false, true}) {
    for (int moment = 1;; ++moment) {
      SCOPED_TRACE(moment);
      if (has_generations) {
        save_generations(*engine_, target_);
      } else {
        save_sample(*engine_, target_, "x");
      }
      attacked_.plan(moment, [&] {
        GetParam().second(target_);
        return true;
      });
      try {
        remove_checkpoint(attacked_, target_);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::not_found) << error.what();
        EXPECT_THAT(error.what(), HasSubstr(target_.string()));
      }
      EXPECT_THAT(list_tree(temp_.path()), IsEmpty());
      if (!attacked_.is_reached()) {
        EXPECT_GE(moment, 5);
        break;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, RemovalBeside,
                         ::testing::Values(std::pair("Removals",
                                                     [](const std::filesystem::path& target) {
                                                       try {
                                                         remove_checkpoint(testing::unsynced_syscalls(),
                                                                           target);
                                                       } catch (const Error& error) {
                                                         EXPECT_EQ(error.code(), Errc::not_found);
                                                       }
                                                     }),
                                           std::pair("Recoveries",
                                                     [](const std::filesystem::path& target) {
                                                       recover(testing::unsynced_syscalls(),
                                                               target.parent_path());
                                                     })),
                         [](const auto& beside) { return beside.param.first; });

TEST_F(RemoveCheckpointTest, LeavesNothing) {
  save_sample(*engine_, target_, "x");

  remove();

  EXPECT_THAT(list_tree(temp_.path()), IsEmpty());
}

TEST_F(RemoveCheckpointTest, TakesAPathThatEndsInASlash) {
  save_sample(*engine_, target_, "x");

  remove_checkpoint(syscalls_, target_ / "");

  EXPECT_THAT(list_tree(temp_.path()), IsEmpty());
}

TEST_F(RemoveCheckpointTest, RemovesEveryGeneration) {
  save_generations(*engine_, target_);

  remove();

  EXPECT_THAT(list_tree(temp_.path()), IsEmpty());
}

TEST_F(RemoveCheckpointTest, RemovesAGenerationWhoseFirstIsGone) {
  save_generations(*engine_, target_);
  std::filesystem::remove_all(target_);

  remove();

  EXPECT_THAT(list_tree(temp_.path()), IsEmpty());
}

TEST_F(RemoveCheckpointTest, KeepsACheckpointThatIsOnlyCalledLikeAGeneration) {
  save_sample(*engine_, target_, "x");
  save_sample(*engine_, temp_ / "step.g2", "another");

  remove();

  EXPECT_FALSE(std::filesystem::exists(target_));
  EXPECT_EQ(load_sample(temp_ / "step.g2"), "another");
}

TEST_F(RemoveCheckpointTest, KeepsASaveInProgress) {
  save_sample(*engine_, target_, "x");
  StagedDirectory staged = StagedDirectory::create(*engine_, target_, overwriting());

  remove();

  EXPECT_NO_THROW(staged.publish(sample_manifest(), {}));
}

TEST_F(RemoveCheckpointTest, RemovesACheckpointWithDamagedData) {
  save_sample(*engine_, target_, "x");
  std::filesystem::remove(target_ / "state/data");
  write_text(target_ / "chunks.xxh3", "");

  remove();

  EXPECT_THAT(list_tree(temp_.path()), IsEmpty());
}

TEST_F(RemoveCheckpointTest, RefusesADamagedManifestWithoutWhichNoFileIsKnown) {
  save_sample(*engine_, target_, "x");
  write_text(target_ / "checkpoint.json", "{");

  EXPECT_THAT([&] { remove(); }, Fails(Errc::checksum_mismatch,
                                       HasSubstr("cannot determine which files belong to the checkpoint")));
  EXPECT_TRUE(std::filesystem::exists(target_ / "state/data"));
}

TEST_F(RemoveCheckpointTest, TakesOneCallWhereADamagedOneWasReplaced) {
  save_sample(*engine_, target_, "old");
  std::filesystem::resize_file(target_ / "checkpoint.json", 10);
  save_sample(*engine_, target_, "new", overwriting());

  const RemovalReport report = remove_checkpoint(syscalls_, target_);

  EXPECT_FALSE(std::filesystem::exists(target_));
  EXPECT_THAT(report.kept, ElementsAre(HasSubstr("cannot determine which files belong to the checkpoint")));
  EXPECT_THAT([&] { remove(); }, Fails(Errc::not_found));
  recover(io::posix_syscalls(), temp_.path());
  EXPECT_FALSE(std::filesystem::exists(target_)) << "it was damaged, and is put back by nobody";
}

TEST_F(RemoveCheckpointTest, FollowsNoLink) {
  const TempDir outside;
  write_text(outside / "data", "mine");
  save_sample(*engine_, target_, "x");
  std::filesystem::remove_all(target_ / "state");
  std::filesystem::create_directory_symlink(outside.path(), target_ / "state");

  remove();

  EXPECT_THAT(list_tree(temp_.path()), ElementsAre("step", "step/state"));
  EXPECT_TRUE(std::filesystem::exists(outside / "data"));
}

TEST_F(RemoveCheckpointTest, RefusesWhatIsNotThere) {
  EXPECT_THAT([&] { remove(); }, Fails(Errc::not_found, HasSubstr("step")));
}

TEST_F(RemoveCheckpointTest, RefusesAPathWithoutItsParent) {
  EXPECT_THAT([&] { remove_checkpoint(syscalls_, temp_ / "none/step"); },
              Fails(Errc::not_found, HasSubstr("none")));
}

TEST_F(RemoveCheckpointTest, RefusesADirectoryThatIsNoCheckpoint) {
  std::filesystem::create_directory(target_);
  write_text(target_ / "diary", "mine");

  EXPECT_THAT([&] { remove(); }, Fails(Errc::not_committed, HasSubstr("step")));
  EXPECT_TRUE(std::filesystem::exists(target_ / "diary"));
}

TEST_F(RemoveCheckpointTest, RefusesAFile) {
  write_text(target_, "mine");

  EXPECT_THAT([&] { remove(); }, Fails(Errc::not_committed, HasSubstr("step")));
  EXPECT_TRUE(std::filesystem::exists(target_));
}

TEST_F(RemoveCheckpointTest, RefusesALinkToACheckpoint) {
  save_sample(*engine_, temp_ / "real", "x");
  std::filesystem::create_directory_symlink("real", target_);

  EXPECT_THAT([&] { remove(); }, Fails(Errc::not_committed, HasSubstr("step")));
  EXPECT_EQ(load_sample(temp_ / "real"), "x");
}

TEST_F(RemoveCheckpointTest, RefusesTheTemporaryDirectoryOfASave) {
  const StagedDirectory staged = StagedDirectory::create(*engine_, target_);

  EXPECT_THAT([&] { remove_checkpoint(syscalls_, staged.path()); },
              Fails(Errc::invalid_argument, HasSubstr(".tmp-step")));
  EXPECT_TRUE(std::filesystem::exists(staged.path()));
}

TEST_F(RemoveCheckpointTest, RefusesAPathThatEndsInNoName) {
  EXPECT_THAT([&] { remove_checkpoint(syscalls_, temp_ / ".."); },
              Fails(Errc::invalid_argument, HasSubstr("..")));
}

TEST_F(RemoveCheckpointTest, RefusesADamagedCommitThatRecoveryWouldNotKnow) {
  save_sample(*engine_, target_, "x");
  write_text(target_ / "COMMIT", "mine");

  EXPECT_THAT([&] { remove(); }, Fails(Errc::malformed_metadata, HasSubstr("COMMIT")));
  EXPECT_TRUE(std::filesystem::exists(target_ / "state/data"));
}

TEST_F(RemoveCheckpointTest, RefusesWhenALaterGenerationMayBeThereButIsDamaged) {
  save_generations(*engine_, target_);
  write_text(temp_ / "step.g2/checkpoint.json", "{");

  EXPECT_THAT([&] { remove(); }, Fails(Errc::malformed_metadata, HasSubstr("step.g2")));
  EXPECT_TRUE(std::filesystem::exists(target_ / "state/data"));
}

TEST_F(RemoveCheckpointTest, RemovesNoFileBeforeTheRenameIsDurable) {
  save_sample(*engine_, target_, "x");
  const std::size_t files = list_tree(temp_.path()).size();
  syscalls_.plan({io::Call::sync, 1, io::kForEver, -EIO});

  EXPECT_THAT([&] { remove(); }, FailsWithErrno(EIO, HasSubstr("fsync")));

  EXPECT_FALSE(std::filesystem::exists(target_));
  EXPECT_EQ(list_tree(temp_.path()).size(), files);
}

TEST_F(RemoveCheckpointTest, LeavesToRecoveryWhatItCouldNotRemove) {
  save_sample(*engine_, target_, "x");
  syscalls_.plan({io::Call::unlink, 1, io::kForEver, -EACCES});

  EXPECT_THAT([&] { remove(); }, FailsWithErrno(EACCES, HasSubstr(".trash-step-")));

  EXPECT_EQ(recover(io::posix_syscalls(), temp_.path()).entries.at(0).kind, EntryClass::retired);
  EXPECT_THAT(list_tree(temp_.path()), IsEmpty());
}

/// A network file system: the first rename is done, its answer is lost, and so many looks after it fail.
class LostRename final : public testing::ForwardingSyscalls {
 public:
  explicit LostRename(int failing_looks) : failing_looks_(failing_looks) {}

  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                io::RenameMode mode) noexcept override {
    const int renamed = ForwardingSyscalls::rename_at(old_directory, old_name, new_directory, new_name, mode);
    return std::exchange(is_lost_, true) ? renamed : -EIO;
  }
  int status_at(int directory, const char* name, io::FileStatus& status) noexcept override {
    return is_lost_ && failing_looks_-- > 0 ? -EIO : ForwardingSyscalls::status_at(directory, name, status);
  }

 private:
  int failing_looks_;
  bool is_lost_ = false;
};

TEST_F(RemoveCheckpointTest, NeverSaysThatWhatItHasRemovedWasNotThere) {
  for (const int failing_looks : {0, 1, 2, 3, 4}) {
    SCOPED_TRACE(failing_looks);
    save_sample(*engine_, target_, "x");
    LostRename lost(failing_looks);
    try {
      remove_checkpoint(lost, target_);
      EXPECT_THAT(list_tree(temp_.path()), IsEmpty());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), std::errc::io_error) << error.what();
      EXPECT_GT(failing_looks, 1) << "one look that fails is made up for";
    }
    recover(io::posix_syscalls(), temp_.path());
    EXPECT_THAT(list_tree(temp_.path()), IsEmpty());
  }
}

/// The same, and a recovery is faster than the look after it.
class LostRenameBesideRecovery final : public testing::ForwardingSyscalls {
 public:
  explicit LostRenameBesideRecovery(std::filesystem::path root) : root_(std::move(root)) {}

  int rename_at(int old_directory, const char* old_name, int new_directory, const char* new_name,
                io::RenameMode mode) noexcept override {
    const int renamed = ForwardingSyscalls::rename_at(old_directory, old_name, new_directory, new_name, mode);
    if (std::exchange(is_lost_, true)) {
      return renamed;
    }
    recover(io::posix_syscalls(), root_);
    return -EIO;
  }

 private:
  const std::filesystem::path root_;
  bool is_lost_ = false;
};

TEST_F(RemoveCheckpointTest, NorWhereARecoveryHasTakenTheRest) {
  for (const bool has_generations : {false, true}) {
    if (has_generations) {
      save_generations(*engine_, target_);
    } else {
      save_sample(*engine_, target_, "x");
    }
    LostRenameBesideRecovery lost(temp_.path());

    EXPECT_NO_THROW(remove_checkpoint(lost, target_));

    EXPECT_THAT(list_tree(temp_.path()), IsEmpty());
  }
}

std::optional<std::string> load_unless_gone(const std::filesystem::path& target) {
  try {
    return load_sample(target);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::not_found) << error.what();
    return std::nullopt;
  }
}

enum class RemovalScene { plain, generations, leftover, half_a_leftover };

std::string name_of(RemovalScene scene) {
  switch (scene) {
    case RemovalScene::plain:
      return "Plain";
    case RemovalScene::generations:
      return "Generations";
    case RemovalScene::leftover:
      return "Leftover";
    case RemovalScene::half_a_leftover:
      return "HalfALeftover";
  }
  return "";
}

using RemovalParam = std::tuple<RemovalScene, bool>;

class RemoveWithFault : public ::testing::TestWithParam<RemovalParam> {
 protected:
  /// Removes with the fault; returns false when the fault was never reached.
  bool try_fault(const io::Fault& fault) {
    const TempDir temp;
    const std::filesystem::path target = temp / "step";
    save(target);
    syscalls_.plan(fault);

    const bool is_removed = remove(target);

    const bool is_hit = syscalls_.hits() > 0;
    syscalls_.clear();
    const std::optional<std::string> found = load_unless_gone(target);
    EXPECT_EQ(found.value_or("newest"), "newest") << "never an older one";
    EXPECT_FALSE(is_removed && found) << "right after the removal";
    for (int i = 0; i < 2; ++i) {
      recover(testing::unsynced_syscalls(), temp.path());
      EXPECT_EQ(load_unless_gone(target), found) << "after recovery";
    }
    const auto left = std::distance(std::filesystem::directory_iterator(temp.path()), {});
    EXPECT_EQ(left, found ? 1 : 0) << "recovery leaves the checkpoint and nothing else";
    return is_hit;
  }

  void save(const std::filesystem::path& target) {
    switch (const RemovalScene scene = std::get<0>(GetParam())) {
      case RemovalScene::plain:
        save_sample(*engine_, target, "newest");
        break;
      case RemovalScene::generations:
        save_generations(*engine_, target);
        break;
      case RemovalScene::leftover:
      case RemovalScene::half_a_leftover:
        save_beside_leftover(*engine_, target, scene == RemovalScene::half_a_leftover);
    }
  }

  bool remove(const std::filesystem::path& target) {
    try {
      remove_checkpoint(syscalls_, target);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  io::FaultySyscalls syscalls_{testing::unsynced_syscalls()};
  std::unique_ptr<io::Engine> engine_ = testing::unsynced_engine();
};

TEST_P(RemoveWithFault, LeavesTheWholeCheckpointOrNone) {
  const int times = std::get<1>(GetParam()) ? io::kForEver : 1;
  const int faults = io::try_each_fault(times, [this](const auto& fault) { return try_fault(fault); });
  EXPECT_GT(faults, 20);
}

INSTANTIATE_TEST_SUITE_P(Scenes, RemoveWithFault,
                         ::testing::Combine(::testing::Values(RemovalScene::plain, RemovalScene::generations,
                                                              RemovalScene::leftover,
                                                              RemovalScene::half_a_leftover),
                                            ::testing::Bool()),
                         [](const auto& tested) {
                           return name_of(std::get<0>(tested.param)) +
                                  (std::get<1>(tested.param) ? "FromThenOn" : "Once");
                         });

}  // namespace
}  // namespace cairn::store
