// SPDX-License-Identifier: Apache-2.0
// Saves on file systems without hard links: COMMIT is made where it belongs, and half of one is nobody's checkpoint.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <gmock/gmock.h>

#include "io/faulty_syscalls.hpp"
#include "io/internal/engine.hpp"
#include "store/internal/listing.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/remove_checkpoint.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WithoutLinks : public ::testing::Test {
 protected:
  WithoutLinks() {
    syscalls_.lacks_rename_modes = true;
    syscalls_.link_error = EOPNOTSUPP;
    io::EngineOptions options;
    options.syscalls = &syscalls_;
    options.threads = 1;
    engine_ = io::make_engine(io::EngineKind::threads, options).engine;
  }

  void save(const std::string& text) { save_sample(*engine_, target_, text, overwriting()); }

  /// What a save left at `name` that was cut short when COMMIT had `bytes` bytes.
  void leave_half(const std::string& name, std::uintmax_t bytes) const {
    testing::write_text(temp_ / name / ".uncommitted", encode_owner(this_process(make_uuid(system_random))));
    fs::resize_file(temp_ / name / "COMMIT", bytes);
  }

  [[nodiscard]] std::vector<std::string> listed() {
    std::vector<std::string> names;
    for (const FoundCheckpoint& found : list_checkpoints(syscalls_, temp_.path(), {})) {
      names.push_back(found.entry);
    }
    return names;
  }

  [[nodiscard]] std::vector<std::string> named() {
    std::vector<std::string> names;
    for (const NamedCheckpoint& found : list_names(io::Directory::open(syscalls_, temp_.path()))) {
      names.push_back(found.entry);
    }
    return names;
  }

  [[nodiscard]] EntryClass class_of(const std::string& name) {
    const RecoveryReport report = recover(syscalls_, temp_.path());
    const auto found = std::find_if(report.entries.begin(), report.entries.end(),
                                    [&name](const RecoveryEntry& entry) { return entry.name == name; });
    return found == report.entries.end() ? EntryClass::foreign : found->kind;
  }

  testing::TempDir temp_;
  const fs::path target_ = temp_ / "step";
  io::FaultySyscalls syscalls_;
  std::unique_ptr<io::Engine> engine_;
};

TEST_F(WithoutLinks, ASaveCommits) {
  for (const int error : {EOPNOTSUPP, EPERM, ENOSYS}) {
    syscalls_.link_error = error;

    save(std::to_string(error));

    EXPECT_EQ(load_sample(target_), std::to_string(error));
  }
  EXPECT_THAT(listed(), ElementsAre("step.g3"));
  EXPECT_FALSE(fs::exists(temp_ / "step.g3/.uncommitted"));
  EXPECT_EQ(class_of("step.g3"), EntryClass::committed);
}

TEST_F(WithoutLinks, AnotherErrorOfTheLinkFailsTheSave) {
  syscalls_.link_error = EIO;

  EXPECT_THAT([&] { save("new"); }, testing::FailsWithErrno(EIO, HasSubstr("COMMIT")));
  EXPECT_THAT(testing::list_tree(temp_.path()), IsEmpty());
}

TEST_F(WithoutLinks, HalfACommitIsNobodysCheckpoint) {
  save("old");
  save("new");
  const auto whole = fs::file_size(temp_ / "step.g2/COMMIT");
  const fs::path kept = temp_ / "kept";
  fs::copy(temp_ / "step.g2", kept, fs::copy_options::recursive);
  for (const std::uintmax_t bytes : {std::uintmax_t{0}, std::uintmax_t{1}, whole / 2, whole - 1}) {
    fs::remove_all(target_);
    fs::remove_all(temp_ / "step.g2");
    fs::copy(kept, temp_ / "step.g2", fs::copy_options::recursive);
    leave_half("step.g2", bytes);

    EXPECT_THAT([&] { load_sample(target_); }, Fails(Errc::not_found));
    EXPECT_THAT([&] { load_sample(temp_ / "step.g2"); }, Fails(Errc::not_committed, HasSubstr("not whole")));
    EXPECT_THAT(named(), ElementsAre("kept"));
    EXPECT_EQ(class_of("step.g2"), EntryClass::abandoned);
    EXPECT_FALSE(fs::exists(temp_ / "step.g2"));
  }
}

TEST_F(WithoutLinks, HalfACommitHidesNoOlderGeneration) {
  save("old");
  fs::copy(target_, temp_ / "step.g2", fs::copy_options::recursive);
  leave_half("step.g2", 10);

  EXPECT_EQ(load_sample(target_), "old");
  EXPECT_THAT(listed(), ElementsAre("step"));
  EXPECT_THAT(named(), ElementsAre("step"));
  save("new");
  EXPECT_EQ(load_sample(target_), "new");
  EXPECT_EQ(class_of("step.g2"), EntryClass::abandoned);
  EXPECT_EQ(load_sample(target_), "new");
  EXPECT_THAT(listed(), ElementsAre("step.g3"));
}

TEST_F(WithoutLinks, HalfACommitIsNotOverwrittenAndNotRemovedBeforeARecovery) {
  save("old");
  leave_half("step", 10);

  EXPECT_THAT([&] { save("new"); }, Fails(Errc::already_exists));
  EXPECT_THAT([&] { remove_checkpoint(syscalls_, target_); }, Fails(Errc::not_committed));
  EXPECT_EQ(class_of("step"), EntryClass::abandoned);
  EXPECT_THAT(testing::list_tree(temp_.path()), IsEmpty());
}

TEST_F(WithoutLinks, ACommitIsKeptWhileItsSaveLives) {
  save("old");
  leave_half("step", 10);
  const io::FileHandle mark = io::Directory::open(syscalls_, target_).open_file(".uncommitted", O_RDWR);
  ASSERT_EQ(syscalls_.try_lock(mark.fd()), 0);

  EXPECT_EQ(class_of("step"), EntryClass::live);
  EXPECT_TRUE(fs::exists(target_));
}

TEST_F(WithoutLinks, ACommitOfALaterFormatIsNotHalfOfOne) {
  save("old");
  testing::write_text(target_ / ".uncommitted", encode_owner(this_process(make_uuid(system_random))));
  std::string commit = testing::read_text(target_ / "COMMIT");
  commit[8] = 99;  // The version.
  testing::write_text(target_ / "COMMIT", commit + "and more");

  EXPECT_EQ(class_of("step"), EntryClass::damaged);
  EXPECT_TRUE(fs::exists(target_));
}

TEST_F(WithoutLinks, ADamagedCommitWithoutAMarkIsDamage) {
  save("old");
  fs::resize_file(target_ / "COMMIT", 10);

  EXPECT_THAT([&] { load_sample(target_); }, Fails(Errc::malformed_metadata));
  EXPECT_EQ(class_of("step"), EntryClass::damaged);
}

/// Which call of the making of COMMIT fails, after its creation.
class WithoutLinksFailing : public WithoutLinks, public ::testing::WithParamInterface<io::Call> {};

TEST_P(WithoutLinksFailing, IsUnknownAndLeftToRecovery) {
  save("old");
  // Each call of this kind from some number on: the last save that does not say unknown has failed before it made
  // COMMIT.
  std::optional<std::error_code> verdict;
  for (int first = 1; first < 100 && verdict != make_error_code(Errc::commit_unknown); ++first) {
    syscalls_.plan({GetParam(), first, io::kForEver, -EIO});
    try {
      save("new");
      break;
    } catch (const Error& error) {
      verdict = error.code();
    }
    syscalls_.clear();
    if (verdict != make_error_code(Errc::commit_unknown)) {
      EXPECT_EQ(load_sample(target_), "old");
      recover(io::posix_syscalls(), temp_.path());
    }
  }
  syscalls_.clear();

  ASSERT_EQ(verdict, make_error_code(Errc::commit_unknown));
  const std::string found = load_sample(target_);
  EXPECT_EQ(found, GetParam() == io::Call::write ? "old" : "new");
  recover(io::posix_syscalls(), temp_.path());
  EXPECT_EQ(load_sample(target_), found);
  EXPECT_THAT(listed(), ElementsAre(found == "new" ? "step.g2" : "step"));
}

INSTANTIATE_TEST_SUITE_P(Calls, WithoutLinksFailing,
                         ::testing::Values(io::Call::write, io::Call::sync_data, io::Call::close),
                         [](const auto& call) {
                           return call.param == io::Call::write       ? "Write"
                                  : call.param == io::Call::sync_data ? "Sync"
                                                                      : "Close";
                         });

}  // namespace
}  // namespace cairn::store
