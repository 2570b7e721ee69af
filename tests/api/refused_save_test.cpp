// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/fixture.hpp"
#include "api/scripted.hpp"
#include "io/internal/file.hpp"
#include "store/internal/checkpoint_lock.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempDir;

class RefusedSave : public testing::ApiTest {};

TEST_F(RefusedSave, ListsEveryHandlerWhenNoneTakesTheValue) {
  struct Unheard {};
  const Unheard value;

  EXPECT_THAT(
      [&] {
        save_items({{"thing", value}});
      },
      Fails(Errc::no_handler, AllOf(HasSubstr("'thing'"), HasSubstr("Unheard"), HasSubstr("cairn.tree/1"),
                                    HasSubstr("cairn.json/1"), HasSubstr("cairn.array/1"))));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(RefusedSave, RefusesTwoHandlersOfOneId) {
  HandlerRegistry registry;
  registry.add<testing::ScriptedHandler>();

  EXPECT_THAT([&] { registry.add(std::make_shared<const testing::ScriptedHandler>()); },
              Fails(Errc::ambiguous_handler, HasSubstr("test.scripted/1")));
}

TEST_F(RefusedSave, RefusesToSaveNothing) {
  EXPECT_THAT([&] { save_items({}); }, Fails(Errc::invalid_argument));
}

TEST_F(RefusedSave, TellsOfWhatIsAskedBeforeReplacingAsOfAHandler) {
  save_items({{"state", tree_}});
  SaveOptions options;
  options.overwrite = true;
  options.before_replacing = [] { throw 7; };

  EXPECT_THAT(
      [&] {
        save_items({{"state", tree_}}, options);
      },
      Fails(Errc::handler_failed,
            AllOf(HasSubstr(target().string() + ": before_replacing: "), HasSubstr("unknown type"))));
  options.before_replacing = [] { throw Error(Errc::timed_out, "another save"); };
  EXPECT_THAT(
      [&] {
        save_items({{"state", tree_}}, options);
      },
      Fails(Errc::handler_failed, HasSubstr("another save")));
  options.before_replacing = [] { throw Error(Errc::not_found, "no licence"); };
  EXPECT_THAT(
      [&] {
        save_items({{"state", tree_}}, options);
      },
      Fails(Errc::not_found, HasSubstr("no licence")));
}

TEST_F(RefusedSave, IsLateWhereTheLockOfWhatItReplacesIsNotFreeByItsDeadline) {
  save_items({{"state", tree_}});
  const store::CheckpointLock held(io::Directory::open(io::posix_syscalls(), directory_.path()),
                                   "checkpoint");
  SaveOptions options;
  options.overwrite = true;
  options.before_replacing = [] {};
  options.deadline = std::chrono::milliseconds(100);

  EXPECT_THAT([&] { save_items({{"state", tree_}}, options); }, Fails(Errc::timed_out));
}

/// A value that its handler writes as one file.
struct Text {
  std::size_t bytes = 0;
};

class TextHandler final : public CheckpointableHandler<Text> {
 public:
  std::string_view id() const noexcept override { return "test.text/1"; }

  // outlives: used before the first suspension.
  Awaitable<Background<>> save(SaveContext context, const Text& text) const override {
    void* memory = ::mmap(nullptr, text.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const std::shared_ptr<const void> owner(memory,
                                            [bytes = text.bytes](void* mapped) { ::munmap(mapped, bytes); });
    const std::span<const std::byte> content(static_cast<const std::byte*>(memory), text.bytes);
    co_return context.write_file("text", content, owner);
  }
  Awaitable<Background<Text>> load(LoadContext, std::optional<Text>) const override { co_return nothing(); }
  Awaitable<Text> metadata(LoadContext) const override { co_return Text(); }

 private:
  static Background<Text> nothing() { co_return Text(); }
};

TEST_F(RefusedSave, RefusesATextThatNoLoadWouldRead) {
  ContextOptions options = small();
  options.registry.add<TextHandler>();
  const Context context(options);
  const Text text{(std::size_t{4} << 30) + 1};

  EXPECT_THAT(
      [&] {
        save_checkpointables(target(), {{"text", text}}, {}, context);
      },
      Fails(Errc::invalid_argument, HasSubstr("'text' has 4294967297 bytes")));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(RefusedSave, RefusesCustomMetadataThatIsNoJson) {
  SaveOptions options;
  options.custom_metadata = "{";

  EXPECT_THAT([&] { save_items({{"model", tree_}}, options); }, Fails(Errc::invalid_argument));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(RefusedSave, KeepsTheCheckpointThatIsThere) {
  save(target(), tree_, {}, *context_);
  const std::vector<std::string> before = left();

  EXPECT_THAT([&] { save(target(), Tree(8), {}, *context_); },
              Fails(Errc::already_exists, HasSubstr(target().string())));
  EXPECT_EQ(load(target(), {}, *context_), tree_);
  EXPECT_EQ(left(), before);
}

TEST_F(RefusedSave, NamesAParentThatIsMissing) {
  EXPECT_THAT([&] { save(directory_ / "nowhere/at/7", tree_, {}, *context_); },
              Fails(Errc::not_found, HasSubstr("nowhere")));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(RefusedSave, NamesAParentThatIsAFile) {
  testing::write_text(directory_ / "file", "mine");

  EXPECT_THAT([&] { save(directory_ / "file/7", tree_, {}, *context_); },
              FailsWithErrno(ENOTDIR, HasSubstr((directory_ / "file").string())));
}

TEST_F(RefusedSave, LeavesAFileAtTheTargetAlone) {
  testing::write_text(target(), "mine");
  SaveOptions options;
  options.overwrite = true;

  EXPECT_THAT([&] { save(target(), tree_, options, *context_); },
              Fails(Errc::already_exists, HasSubstr(target().string())));
  EXPECT_THAT(left(), ElementsAre("checkpoint"));
}

TEST_F(RefusedSave, NamesAParentThatMayNotBeWrittenTo) {
  if (::geteuid() == 0) {
    GTEST_SKIP() << "root may write everywhere";
  }
  fs::create_directory(directory_ / "locked");
  fs::permissions(directory_ / "locked", fs::perms::owner_read | fs::perms::owner_exec);

  EXPECT_THAT([&] { save(directory_ / "locked/7", tree_, {}, *context_); },
              FailsWithErrno(EACCES, HasSubstr("locked")));
}

/// A small file system of its own, where the user may mount one.
class Mounted {
 public:
  explicit Mounted(fs::path path) : path_(std::move(path)) {
    fs::create_directory(path_);
    is_mounted_ = ::mount("cairn-test", path_.c_str(), "tmpfs", 0, "size=4m") == 0;
  }

  ~Mounted() {
    if (is_mounted_) {
      ::umount2(path_.c_str(), MNT_DETACH);
    }
  }

  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;

  [[nodiscard]] bool is_mounted() const { return is_mounted_; }
  [[nodiscard]] bool make_read_only() const {
    return ::mount("cairn-test", path_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=4m") == 0;
  }

 private:
  fs::path path_;
  bool is_mounted_ = false;
};

TEST_F(RefusedSave, NamesTheFileThatAFullFileSystemDidNotTake) {
  const Mounted small(directory_ / "small");
  if (!small.is_mounted()) {
    GTEST_SKIP() << "no right to mount a file system";
  }
  const std::vector<float> large(4 << 20);

  EXPECT_THAT(
      [&] {
        save_checkpointables(directory_ / "small/7", {{"large", large}}, *context_);
      },
      FailsWithErrno(ENOSPC, AllOf(HasSubstr("'large'"), HasSubstr("small/.tmp-7-"))));
  EXPECT_THAT(testing::list_tree(directory_ / "small"), IsEmpty());
}

TEST_F(RefusedSave, NamesAFileSystemThatIsReadOnly) {
  const Mounted small(directory_ / "small");
  if (!small.is_mounted() || !small.make_read_only()) {
    GTEST_SKIP() << "no right to mount a file system";
  }

  EXPECT_THAT([&] { save(directory_ / "small/7", tree_, {}, *context_); },
              FailsWithErrno(EROFS, HasSubstr((directory_ / "small").string())));
}

/// Cannot be copied or moved, and saves itself.
class Pinned {
 public:
  Pinned() = default;
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  // outlives: the object is the caller's.
  static constexpr bool kIsSavedOnly = true;

  Awaitable<Background<>> save(SaveContext context) const { co_return context.write_file("pinned.txt", "1"); }
};

TEST_F(RefusedSave, OfATemporaryThatCannotBeMovedIsRefusedWhereItMustLast) {
  EXPECT_THAT(
      [&] {
        static_cast<void>(
            save_checkpointables_async(target(), {{"pinned", Pinned()}}, return_when_accepted, *context_));
      },
      Fails(Errc::invalid_argument, AllOf(HasSubstr("'pinned'"), HasSubstr("temporary"))));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(RefusedSave, OfATemporaryIsNoneInACallThatWaits) {
  SaveOptions options;
  options.snapshot = Snapshot::borrow;

  save_checkpointables(target(), {{"pinned", Pinned()}, {"model", Tree(1)}}, options, *context_);

  EXPECT_THAT(left(), Contains("checkpoint/COMMIT"));
}

TEST_F(RefusedSave, OfAClosedContextIsRefused) {
  context_->close();

  EXPECT_THAT([&] { save_items({{"model", tree_}}); }, Fails(Errc::closed));
  EXPECT_THAT(left(), IsEmpty());
}

}  // namespace
}  // namespace cairn
