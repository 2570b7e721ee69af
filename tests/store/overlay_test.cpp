// SPDX-License-Identifier: Apache-2.0
// Overlay file systems, as containers have them: directories of the lower layer cannot be renamed.
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <span>
#include <string>

#include <gmock/gmock.h>

#include "io/faulty_syscalls.hpp"
#include "io/internal/engine.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/remove_checkpoint.hpp"
#include "store/internal/uuid.hpp"
#include "store/names.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

using ::testing::Contains;
using testing::FailsWithErrno;
using ::testing::Field;
using ::testing::HasSubstr;
using testing::TempDir;

/// Overwrites `step`, a checkpoint of the lower layer, twice, and tries to remove it.
void expect_generations(io::Engine& engine, const std::filesystem::path& root) {
  const std::filesystem::path target = root / "step";
  for (const char* text : {"one", "two"}) {
    {
      StagedDirectory staged = StagedDirectory::create(engine, target, overwriting());
      staged.make_directory("state");
      write_sample_file(staged, "state/data", text);
      const io::FileDigest digest = digest_of("state/data", text);
      staged.publish(sample_manifest(), std::span(&digest, 1));
      EXPECT_THAT(staged.retirement_problem(), HasSubstr("lower layer of an overlay"));
    }
    EXPECT_EQ(load_sample(target), text);

    const RecoveryReport report = recover(engine.syscalls(), root);

    EXPECT_EQ(load_sample(target), text);
    for (const RecoveryEntry& entry : report.entries) {
      EXPECT_EQ(entry.kind, EntryClass::committed) << entry.name;
      EXPECT_FALSE(entry.has_failed) << entry.note;
    }
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(root), {}), 2) << "step and step.g3";

  EXPECT_THAT([&] { remove_checkpoint(engine.syscalls(), target); },
              FailsWithErrno(EXDEV, HasSubstr("lower layer of an overlay")));

  EXPECT_EQ(load_sample(target), "two");
}

class OverlayTest : public ::testing::Test {
 protected:
  OverlayTest() {
    io::EngineOptions options;
    options.syscalls = &syscalls_;
    engine_ = io::make_engine(io::EngineKind::threads, options).engine;
  }

  TempDir temp_;
  io::FaultySyscalls syscalls_;
  std::unique_ptr<io::Engine> engine_;
};

TEST_F(OverlayTest, ReplacesACheckpointThatCannotBeRenamedByAGeneration) {
  save_sample(*engine_, temp_ / "step", "lower");
  syscalls_.lower_name = "step";

  expect_generations(*engine_, temp_.path());
}

/// A checkpoint of a later generation, with the mark of its save, as a crash leaves it before the old one goes.
void overwrite_until_mark(io::Engine& engine, io::FaultySyscalls& syscalls,
                          const std::filesystem::path& target) {
  StagedDirectory staged = StagedDirectory::create(engine, target, overwriting());
  staged.make_directory("state");
  write_sample_file(staged, "state/data", "new");
  const io::FileDigest digest = digest_of("state/data", "new");
  syscalls.after_rename = [&syscalls] { syscalls.plan({io::Call::unlink, 1, io::kForEver, -EIO}); };
  staged.publish(sample_manifest(), std::span(&digest, 1));
  syscalls.clear();
}

TEST_F(OverlayTest, RecoveryLeavesWhatCannotBeRenamedAndEndsTheOverwrite) {
  save_sample(*engine_, temp_ / "step", "lower");
  syscalls_.lower_name = "step";
  overwrite_until_mark(*engine_, syscalls_, temp_ / "step");
  ASSERT_TRUE(std::filesystem::exists(temp_ / "step.g2/.owner"));

  const RecoveryReport first = recover(syscalls_, temp_.path());

  for (const RecoveryEntry& entry : first.entries) {
    EXPECT_FALSE(entry.has_failed) << entry.name << ": " << entry.note;
    EXPECT_FALSE(entry.is_removed) << entry.name;
  }
  EXPECT_THAT(first.entries, Contains(Field(&RecoveryEntry::note, HasSubstr("lower layer of an overlay"))));
  EXPECT_FALSE(std::filesystem::exists(temp_ / "step.g2/.owner"));
  EXPECT_TRUE(std::filesystem::exists(temp_ / "step/COMMIT"));
  EXPECT_EQ(load_sample(temp_ / "step"), "new");
  for (const RecoveryEntry& entry : recover(syscalls_, temp_.path()).entries) {
    EXPECT_EQ(entry.kind, EntryClass::committed) << entry.name;
    EXPECT_EQ(entry.action, RecoveryAction::keep) << entry.name;
  }
}

TEST_F(OverlayTest, RecoveryKeepsADisplacedCheckpointThatCannotBeRenamed) {
  save_sample(*engine_, temp_ / "step", "x");
  const std::string displaced = temporary_name("step", make_uuid(system_random));
  std::filesystem::rename(temp_ / "step", temp_ / displaced);
  syscalls_.lower_name = displaced;

  const RecoveryReport report = recover(syscalls_, temp_.path());

  ASSERT_EQ(report.entries.size(), 1u);
  EXPECT_EQ(report.entries[0].kind, EntryClass::displaced);
  EXPECT_TRUE(report.entries[0].has_failed);
  EXPECT_TRUE(std::filesystem::exists(temp_ / displaced / "COMMIT"));
  EXPECT_EQ(testing::read_text(temp_ / displaced / "state/data"), "x");
}

TEST_F(OverlayTest, DoesSoOnARealOne) {
  for (const char* name : {"lower", "upper", "work", "merged"}) {
    std::filesystem::create_directory(temp_ / name);
  }
  save_sample(*engine_, temp_ / "lower/step", "lower");
  const std::filesystem::path merged = temp_ / "merged";
  const std::string options = "redirect_dir=off,lowerdir=" + (temp_ / "lower").string() +
                              ",upperdir=" + (temp_ / "upper").string() +
                              ",workdir=" + (temp_ / "work").string();
  if (::mount("overlay", merged.c_str(), "overlay", 0, options.c_str()) != 0) {
    GTEST_SKIP() << "mounting an overlay needs root and a file system that takes one: "
                 << std::strerror(errno);
  }

  expect_generations(*engine_, merged);

  EXPECT_EQ(::umount(merged.c_str()), 0) << std::strerror(errno);
}

}  // namespace
}  // namespace cairn::store
