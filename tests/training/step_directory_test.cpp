// SPDX-License-Identifier: Apache-2.0
#include "cairn/training/step_directory.hpp"

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "support/forwarding_syscalls.hpp"
#include "training/fixture.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::write_text;

class StepDirectories : public testing::TrainingTest {
 protected:
  [[nodiscard]] StepDirectory open(StepDirectoryOptions options = {}) const {
    return StepDirectory(root(), std::move(options), *context_);
  }
  [[nodiscard]] std::vector<std::uint64_t> steps(StepDirectoryOptions options = {}) const {
    return *open(std::move(options)).steps();
  }
  static StepDirectoryOptions named(StepFormat format, std::vector<StepFormat> also_read = {}) {
    StepDirectoryOptions options;
    options.format = std::move(format);
    options.also_read = std::move(also_read);
    return options;
  }
};

TEST_F(StepDirectories, AreSortedByNumber) {
  save_alone("9");
  save_alone("10");
  save_alone("0");

  EXPECT_THAT(steps(), ElementsAre(0, 9, 10));
  EXPECT_EQ(open().latest(), 10u);
}

/// Somebody makes the root between the first look at it and the second.
class MadeAfterTheFirstLook final : public testing::ForwardingSyscalls {
 public:
  explicit MadeAfterTheFirstLook(std::function<void()> make) : make_(std::move(make)) {}

 protected:
  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    const std::int64_t result = call.make();
    if (call.kind == testing::CallKind::open && result == -ENOENT && make_) {
      std::exchange(make_, nullptr)();
    }
    return result;
  }

 private:
  std::function<void()> make_;
};

TEST_F(StepDirectories, MayBeMadeWhileTheyAreLookedAt) {
  ContextOptions options;
  options.syscalls = std::make_shared<MadeAfterTheFirstLook>([this] { save_alone("3"); });
  const Context context(options);

  EXPECT_THAT(*StepDirectory(root(), {}, context).steps(), ElementsAre(3));
  std::filesystem::remove_all(root());
  ContextOptions others;
  others.syscalls = std::make_shared<MadeAfterTheFirstLook>([this] { save_alone("3"); });
  EXPECT_EQ(latest_checkpoint(root(), {}, Context(others))->name, "3");
}

TEST_F(StepDirectories, ThatAreYetToBeMadeAreEmpty) {
  const StepDirectory directory = open();

  EXPECT_THAT(*directory.steps(), IsEmpty());
  EXPECT_EQ(directory.latest(), std::nullopt);
  EXPECT_THAT(directory.infos(), IsEmpty());
  EXPECT_THAT([&] { static_cast<void>(StepDirectory(root() / "deeper", {}, *context_)); },
              Fails(Errc::not_found, HasSubstr("run/deeper")));
}

TEST_F(StepDirectories, SeeNothingElseInTheRoot) {
  save_alone("1");
  save_alone("best");
  save_alone("01");
  save_alone("1.g2");  // A checkpoint of its own, which is only called like a second generation.
  fs::create_directory(root() / "2");  // No COMMIT.
  fs::create_directory_symlink("1", root() / "3");
  write_text(root() / "4", "a file");
  fs::create_directory(root() / ".tmp-5-x");

  EXPECT_THAT(steps(), ElementsAre(1));
}

TEST_F(StepDirectories, ReadSeveralFormatsAndWriteOne) {
  save_alone("7");
  save_alone("step_00000008");
  save_alone("old-9");
  const StepDirectory directory = open(named(StepFormat("step_", 8), {StepFormat(), StepFormat("old-")}));

  EXPECT_THAT(*directory.steps(), ElementsAre(7, 8, 9));
  EXPECT_EQ(directory.path(7), root() / "7");
  EXPECT_EQ(directory.path(10), root() / "step_00000010");
}

TEST_F(StepDirectories, AStepInTwoFormatsIsAnErrorThatNamesBoth) {
  save_alone("7");
  save_alone("step_7");

  EXPECT_THAT(
      [&] { static_cast<void>(steps(named(StepFormat("step_"), {StepFormat()}))); },
      Fails(Errc::already_exists, AllOf(HasSubstr("step 7"), HasSubstr("'7'"), HasSubstr("'step_7'"))));
}

TEST_F(StepDirectories, ThatAreFilesOrCheckpointsAreErrors) {
  write_text(root(), "a file");
  EXPECT_THAT([&] { static_cast<void>(steps()); }, FailsWithErrno(ENOTDIR, HasSubstr("run")));
  fs::remove(root());
  fs::create_symlink("nowhere", root());
  EXPECT_THAT([&] { static_cast<void>(steps()); }, Fails(Errc::not_found, HasSubstr("run")));
  fs::remove(root());
  save(root(), tree_, {}, *context_);
  EXPECT_THAT([&] { static_cast<void>(steps()); },
              Fails(Errc::invalid_argument, HasSubstr("is a checkpoint")));
}

TEST_F(StepDirectories, SeeWhatOthersDoWhenTheyAreReloaded) {
  StepDirectory directory = open();
  const StepDirectory::Steps before = directory.steps();
  save_alone("1");
  EXPECT_EQ(directory.latest(), std::nullopt);

  directory.reload();

  EXPECT_EQ(directory.latest(), 1u);
  EXPECT_THAT(*before, IsEmpty());
  remove_checkpoint(root() / "1", {}, *context_);
  directory.reload();
  EXPECT_EQ(directory.latest(), std::nullopt);
}

/// Does something between what a directory holds and whoever has asked for it.
class ListingWatch final : public testing::ForwardingSyscalls {
 public:
  int list(int directory, std::vector<io::DirectoryEntry>& entries) noexcept override {
    const int listed = ForwardingSyscalls::list(directory, entries);
    if (const std::function<void()> act = std::exchange(after_list, nullptr)) {
      act();
    }
    return listed;
  }

  std::function<void()> after_list;
};

TEST_F(StepDirectories, BelieveNoListThatIsOlderThanWhatWasSavedOrRemoved) {
  save_alone("1");
  save_alone("2");
  const auto disk = std::make_shared<ListingWatch>();
  ContextOptions watched = small();
  watched.syscalls = disk;
  const Context context(watched);
  StepDirectory directory(root(), {}, context);

  disk->after_list = [&] {
    remove_checkpoint(root() / "1", {}, *context_);
    directory.forget(1);
    save_alone("3");
    directory.add(3);
  };
  directory.refresh();

  EXPECT_THAT(*directory.steps(), ElementsAre(2, 3));
}

TEST_F(StepDirectories, TellWhatAManifestSays) {
  save_alone("1");

  const StepInfo info = open().info(1);

  EXPECT_EQ(info.step, 1u);
  EXPECT_EQ(info.path, root() / "1");
  EXPECT_EQ(info.committed, CommitTime(clock_->now()));
  EXPECT_GT(info.bytes, 0u);
  EXPECT_THAT(info.metrics, IsEmpty());
  EXPECT_EQ(info.problem, "");
}

TEST_F(StepDirectories, TellThatAManifestIsTorn) {
  save_alone("1");
  tear_manifest(1);

  const StepInfo info = open().info(1);

  EXPECT_THAT(info.problem, HasSubstr("1/checkpoint.json"));
  EXPECT_EQ(info.committed, std::nullopt);
}

TEST_F(StepDirectories, ReadAManifestOnceUntilTheyAreReloaded) {
  save_alone("1");
  StepDirectory directory = open();
  static_cast<void>(directory.infos());
  tear_manifest(1);

  EXPECT_EQ(directory.info(1).problem, "");
  directory.refresh();
  EXPECT_EQ(directory.infos().at(0).problem, "");
  directory.reload();
  EXPECT_NE(directory.info(1).problem, "");
}

TEST_F(StepDirectories, HaveNoInfoOfAStepThatIsNotThere) {
  EXPECT_THAT([&] { static_cast<void>(open().info(3)); }, Fails(Errc::not_found, HasSubstr("step 3")));
}

TEST_F(StepDirectories, KeepPinsThatOthersSee) {
  save_alone("1");
  save_alone("2");
  open().pin(1);
  open().pin(1);

  EXPECT_TRUE(open().is_pinned(1));
  EXPECT_FALSE(open().is_pinned(2));
  EXPECT_TRUE(open().info(1).is_pinned);
  EXPECT_FALSE(open().infos(false).at(1).is_pinned);
  open().unpin(1);
  open().unpin(1);
  EXPECT_FALSE(open().is_pinned(1));
}

TEST_F(StepDirectories, APinOfAStepThatIsNotThereIsRefusedAndLeavesNothing) {
  save_alone("1");
  const StepDirectory directory = open();
  remove_checkpoint(root() / "1", {}, *context_);

  EXPECT_THAT([&] { directory.pin(1); }, Fails(Errc::not_found, HasSubstr("step 1")));
  EXPECT_THAT([&] { directory.pin(2); }, Fails(Errc::not_found, HasSubstr("step 2")));
  EXPECT_FALSE(directory.is_pinned(1));
  EXPECT_FALSE(directory.is_pinned(2));
}

TEST_F(StepDirectories, PinsAreForeignToListingsAndRecovery) {
  save_alone("1");
  open().pin(1);

  recover(root(), RecoverOptions(), *context_);

  EXPECT_TRUE(open().is_pinned(1));
  ListOptions everything;
  everything.everything = true;
  EXPECT_EQ(list_checkpoints(root(), everything, *context_).size(), 1u);
}

TEST_F(StepDirectories, SayWhatOfARootIsMissing) {
  fs::create_directory_symlink(directory_ / "gone", directory_ / "link");
  const auto open = [this](const char* path) {
    return [this, path] { static_cast<void>(StepDirectory(directory_ / path, {}, *context_)); };
  };

  EXPECT_THAT(open("x/y/z"), Fails(Errc::not_found, EndsWith("x/y/z: " + (directory_ / "x").string() +
                                                             " is missing: not found")));
  EXPECT_THAT(open("link"),
              Fails(Errc::not_found, AllOf(HasSubstr("the link"), HasSubstr("link leads nowhere"))));
  EXPECT_THAT(open("link/run"), Fails(Errc::not_found, HasSubstr("link leads nowhere")));
}

}  // namespace
}  // namespace cairn
