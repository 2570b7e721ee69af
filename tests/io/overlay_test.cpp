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

#include "cairn/io/recovery.hpp"
#include "cairn/io/remove_checkpoint.hpp"

#include "io/faulty_syscalls.hpp"
#include "io/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::io {
namespace {

using testing::FailsWithErrno;
using ::testing::HasSubstr;
using testing::TempDir;

/// Overwrites `step`, a checkpoint of the lower layer, twice, and tries to remove it.
void expect_generations(Engine& engine, const std::filesystem::path& root) {
  const std::filesystem::path target = root / "step";
  for (const char* text : {"one", "two"}) {
    {
      StagedDirectory staged = StagedDirectory::create(engine, target, overwriting());
      staged.make_directory("state");
      write_sample_file(staged, "state/data", text);
      const FileDigest digest = digest_of("state/data", text);
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
    EngineOptions options;
    options.syscalls = &syscalls_;
    engine_ = make_engine(EngineKind::threads, options).engine;
  }

  TempDir temp_;
  FaultySyscalls syscalls_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(OverlayTest, ReplacesACheckpointThatCannotBeRenamedByAGeneration) {
  save_sample(*engine_, temp_ / "step", "lower");
  syscalls_.lower_name = "step";

  expect_generations(*engine_, temp_.path());
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
}  // namespace cairn::io
