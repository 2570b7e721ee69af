// SPDX-License-Identifier: Apache-2.0
// Renames and links whose answers are lost, on a file system that then refuses to be looked at: what cannot be told
// is called unknown, and nothing is removed.
#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "io/faulty_syscalls.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/remove_checkpoint.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::list_tree;
using testing::TempDir;

class LostAnswer : public ::testing::Test {
 protected:
  LostAnswer() {
    io::EngineOptions options;
    options.syscalls = &syscalls_;
    options.threads = 1;
    engine_ = io::make_engine(io::EngineKind::threads, options).engine;
  }

  /// Saves "new" over what is there while the first rename (or link) fails with EIO, and every look after it, too;
  /// returns the code of the save.
  std::error_code save_blindly(io::Call call, bool is_performed, io::Fault look, StagedOptions options) {
    try {
      StagedDirectory staged = StagedDirectory::create(*engine_, target_, std::move(options));
      staged.make_directory("state");
      write_sample_file(staged, "state/data", "new");
      const io::FileDigest digest = digest_of("state/data", "new");
      syscalls_.plan({call, 1, 1, -EIO, is_performed});
      auto& hook = call == io::Call::link ? syscalls_.after_link : syscalls_.after_rename;
      hook = [this, look] { syscalls_.plan(look); };
      staged.publish(sample_manifest(), std::span(&digest, 1));
    } catch (const Error& error) {
      syscalls_.clear();
      return error.code();
    }
    syscalls_.clear();
    return {};
  }

  [[nodiscard]] std::string found() const { return load_sample(target_); }

  TempDir temp_;
  std::filesystem::path target_ = temp_ / "step";
  io::FaultySyscalls syscalls_;
  std::unique_ptr<io::Engine> engine_;
};

using UnreadableGeneration = LostAnswer;

/// The ways in which looking at a name may fail.
constexpr io::Fault kBlindness[] = {
    {io::Call::status, 1, io::kForEver, -EIO}, {io::Call::status, 1, io::kForEver, -EMFILE},
    {io::Call::open, 1, io::kForEver, -EIO},   {io::Call::open, 1, io::kForEver, -EMFILE},
    {io::Call::read, 1, io::kForEver, -EIO},   {io::Call::status, 1, 1, -EACCES}};

TEST_F(LostAnswer, OfAnExchangeLeavesBothCheckpoints) {
  for (const io::Fault& blindness : kBlindness) {
    SCOPED_TRACE(::testing::Message() << static_cast<int>(blindness.call) << " " << blindness.result);
    save_sample(*engine_, target_, "old", overwriting());

    const std::error_code code = save_blindly(io::Call::rename, true, blindness, overwriting());

    // Where the look needs nothing that fails, the save knows that it was done.
    EXPECT_TRUE(!code || code == Errc::commit_unknown) << code.message();
    EXPECT_EQ(found(), "new");
    recover(io::posix_syscalls(), temp_.path());
    EXPECT_EQ(found(), "new") << "after recovery";
  }
}

TEST_F(LostAnswer, OfAnExchangeIsUnknownWhenNameAndNumberCannotBeSeen) {
  save_sample(*engine_, target_, "old");

  const std::error_code code =
      save_blindly(io::Call::rename, true, {io::Call::status, 1, io::kForEver, -EIO}, overwriting());

  EXPECT_EQ(code, Errc::commit_unknown);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(temp_.path()), {}), 2) << "nothing is removed";
}

TEST_F(LostAnswer, OfAnExchangeThatWasNotDoneKeepsTheOldCheckpoint) {
  for (const io::Fault& blindness : kBlindness) {
    SCOPED_TRACE(::testing::Message() << static_cast<int>(blindness.call) << " " << blindness.result);
    save_sample(*engine_, target_, "old", overwriting());

    const std::error_code code = save_blindly(io::Call::rename, false, blindness, overwriting());

    EXPECT_TRUE(code) << "it was not done";
    EXPECT_EQ(found(), "old");
    recover(io::posix_syscalls(), temp_.path());
    EXPECT_EQ(found(), "old") << "after recovery";
  }
}

TEST_F(LostAnswer, OfTheFirstRenameKeepsWhatMayBeTheCheckpoint) {
  for (const io::Fault& blindness : kBlindness) {
    SCOPED_TRACE(::testing::Message() << static_cast<int>(blindness.call) << " " << blindness.result);

    const std::error_code code = save_blindly(io::Call::rename, true, blindness, {});

    EXPECT_TRUE(!code || code == Errc::commit_unknown) << code.message();
    recover(io::posix_syscalls(), temp_.path());
    EXPECT_EQ(found(), "new");
    std::filesystem::remove_all(target_);
  }
}

TEST_F(LostAnswer, OfALinkThatWasDoneIsACommit) {
  StagedOptions options;
  options.commit_mode = CommitMode::marker;

  EXPECT_FALSE(save_blindly(io::Call::link, true, {io::Call::lock, 1, 0, 0}, options));

  EXPECT_EQ(found(), "new");
}

TEST_F(LostAnswer, OfALinkIsUnknownWhenItCannotBeRead) {
  StagedOptions options;
  options.commit_mode = CommitMode::marker;

  const std::error_code code =
      save_blindly(io::Call::link, true, {io::Call::read, 1, io::kForEver, -EIO}, options);

  EXPECT_EQ(code, Errc::commit_unknown);
  EXPECT_EQ(found(), "new");
  recover(io::posix_syscalls(), temp_.path());
  EXPECT_EQ(found(), "new") << "after recovery";
}

TEST_F(LostAnswer, OfTheRenameThatMakesTheMarkedDirectoryIsFound) {
  StagedOptions options;
  options.commit_mode = CommitMode::marker;

  EXPECT_FALSE(save_blindly(io::Call::rename, true, {io::Call::lock, 1, 0, 0}, options));

  EXPECT_EQ(found(), "new");
}

TEST_F(LostAnswer, OfARemovalsRenameRemovesAllTheSame) {
  save_sample(*engine_, target_, "old");
  syscalls_.plan({io::Call::rename, 1, 1, -EIO, true});

  EXPECT_NO_THROW(remove_checkpoint(syscalls_, target_));

  EXPECT_THAT(list_tree(temp_.path()), IsEmpty());
}

TEST_F(LostAnswer, OfARemovalsRenameThatWasNotDoneRemovesNothing) {
  save_sample(*engine_, target_, "old");
  syscalls_.plan({io::Call::rename, 1, 1, -EIO});

  EXPECT_THAT([&] { remove_checkpoint(syscalls_, target_); }, FailsWithErrno(EIO, HasSubstr("step")));

  EXPECT_EQ(found(), "old");
}

TEST_F(UnreadableGeneration, StopsASaveThatWouldNotBeSeen) {
  StagedOptions options = overwriting();
  options.commit_mode = CommitMode::marker;
  save_sample(*engine_, target_, "one", options);
  save_sample(*engine_, target_, "two", options);
  StagedDirectory staged = StagedDirectory::create(*engine_, target_, overwriting());
  // Of the reads of publish the first are of COMMIT and the manifest of step.g2.
  syscalls_.plan({io::Call::read, 1, io::kForEver, -EIO});

  EXPECT_THAT([&] { staged.publish(sample_manifest(), {}); }, FailsWithErrno(EIO, HasSubstr("step.g2")));

  syscalls_.clear();
  staged.abandon();
  EXPECT_EQ(found(), "two");
}

TEST_F(UnreadableGeneration, WhenDamagedIsOverwrittenAbove) {
  StagedOptions options = overwriting();
  options.commit_mode = CommitMode::marker;
  save_sample(*engine_, target_, "one", options);
  save_sample(*engine_, target_, "two", options);
  testing::write_text(temp_ / "step.g2/checkpoint.json", "{");

  save_sample(*engine_, target_, "three", overwriting());

  EXPECT_EQ(found(), "three");
}

}  // namespace
}  // namespace cairn::store
