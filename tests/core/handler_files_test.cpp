// SPDX-License-Identifier: Apache-2.0
// What a save makes of the files of its handlers: those that they forget, and those that they write themselves.
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/contract/handler.hpp"
#include "cairn/core/load.hpp"
#include "cairn/core/save.hpp"

#include "core/internal/start.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/committed_directory.hpp"
#include "support/fails.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TempDir;

/// A value whose handler does what the test says.
struct Custom {
  Custom() = default;
};

using CustomSave = std::function<Awaitable<Background<>>(SaveContext)>;

class CustomHandler final : public CheckpointableHandler<Custom> {
 public:
  explicit CustomHandler(CustomSave save) : save_(std::move(save)) {}

  std::string_view id() const noexcept override { return "test.custom/1"; }

  Awaitable<Background<>> save(SaveContext context, const Custom&) const override {
    return save_(std::move(context));
  }

  Awaitable<Background<Custom>> load(LoadContext, std::optional<Custom>) const override {
    co_return nothing();
  }

  Awaitable<Custom> metadata(LoadContext) const override { co_return Custom(); }

 private:
  static Background<Custom> nothing() { co_return Custom(); }

  CustomSave save_;
};

Background<> do_nothing() {
  co_return;
}

class HandlerFiles : public ::testing::Test {
 protected:
  SaveResult save(CustomSave how) {
    HandlerRegistry registry;
    registry.add(std::make_shared<const CustomHandler>(std::move(how)));
    const Context context(options_);
    return core::start_save(target(), {{"item", Custom()}}, registry.snapshot(), SaveOptions(), context)
        .wait();
  }

  std::filesystem::path target() const { return directory_ / "step"; }

  TempDir directory_;
  ContextOptions options_;
};

Awaitable<Background<>> forget_a_file(SaveContext context) {
  Background<> kept = context.write_file("kept.txt", "kept");
  static_cast<void>(context.write_file("lost.txt", "lost"));
  co_return kept;
}

Awaitable<Background<>> forget_pieces(SaveContext context) {
  static const std::string text = "pieces";
  std::vector<SourcePiece> pieces(1);
  pieces[0].size_bytes = text.size();
  pieces[0].data = reinterpret_cast<const std::byte*>(text.data());
  static_cast<void>(co_await context.write_pieces("lost.bin", std::move(pieces), text.size()));
  co_return do_nothing();
}

Awaitable<Background<>> return_nothing_of_a_file(SaveContext context) {
  static_cast<void>(context.write_file("lost.txt", "lost"));
  co_return Background<>();
}

Background<> begin_too_late(SaveContext context) {
  static_cast<void>(context.write_file("lost.txt", "lost"));
  co_return;
}

Awaitable<Background<>> forget_in_the_background(SaveContext context) {
  co_return begin_too_late(std::move(context));
}

Awaitable<Background<>> write_no_file(SaveContext) {
  co_return Background<>();
}

TEST_F(HandlerFiles, ThatAreForgottenFailTheSave) {
  EXPECT_THAT([&] { save(forget_a_file); },
              Fails(Errc::handler_failed,
                    AllOf(HasSubstr("'item' (handler test.custom/1)"), HasSubstr("'item/lost.txt'"),
                          HasSubstr("never awaited"), ::testing::Not(HasSubstr("kept.txt")))));
  EXPECT_THAT(testing::list_tree(directory_.path()), ::testing::IsEmpty());
}

TEST_F(HandlerFiles, OfPiecesThatAreForgottenFailTheSave) {
  EXPECT_THAT([&] { save(forget_pieces); },
              Fails(Errc::handler_failed,
                    AllOf(HasSubstr("'item' (handler test.custom/1)"), HasSubstr("'item/lost.bin'"))));
  EXPECT_THAT(testing::list_tree(directory_.path()), ::testing::IsEmpty());
}

TEST_F(HandlerFiles, ThatTheBackgroundForgetsFailTheSave) {
  EXPECT_THAT(
      [&] { save(forget_in_the_background); },
      Fails(Errc::handler_failed, AllOf(StartsWith(target().string() + ": "), HasSubstr("'item/lost.txt'"))));
}

TEST_F(HandlerFiles, OfAnEmptyBackgroundFailTheSaveAndSayWhy) {
  EXPECT_THAT([&] { save(return_nothing_of_a_file); },
              Fails(Errc::handler_failed,
                    AllOf(HasSubstr("'item/lost.txt'"), HasSubstr("returned an empty background"))));
}

TEST_F(HandlerFiles, MayBeNone) {
  EXPECT_EQ(save(write_no_file).files, 0u);
}

/// Notes the directories that are synced.
class SyncWatcher final : public testing::ForwardingSyscalls {
 public:
  int sync(int fd) noexcept override {
    const std::lock_guard lock(mutex_);
    struct ::stat found {};
    if (::fstat(fd, &found) == 0) {
      synced_.insert(found.st_ino);
    }
    return ForwardingSyscalls::sync(fd);
  }

  [[nodiscard]] bool has_synced(const std::filesystem::path& path) const {
    const std::lock_guard lock(mutex_);
    struct ::stat found {};
    return ::stat(path.c_str(), &found) == 0 && synced_.contains(found.st_ino);
  }

 private:
  mutable std::mutex mutex_;
  std::set<ino_t> synced_;
};

Background<> write_past(SaveContext context) {
  co_await context.directory_created();
  std::filesystem::create_directories(*context.directory() / "sub/deeper");
  testing::write_text(*context.directory() / "own.txt", "own");
  testing::write_text(*context.directory() / "sub/deeper/own.txt", "deeper");
}

Awaitable<Background<>> write_past_the_context(SaveContext context) {
  co_return write_past(std::move(context));
}

TEST_F(HandlerFiles, WrittenPastTheContextAreSyncedWithTheirDirectories) {
  const auto calls = std::make_shared<SyncWatcher>();
  options_.engine = io::EngineKind::threads;
  options_.syscalls = calls;

  const SaveResult result = save(write_past_the_context);

  EXPECT_EQ(result.files, 2u);
  EXPECT_EQ(result.bytes, 9u);
  for (const char* name :
       {"item/own.txt", "item/sub/deeper/own.txt", "item", "item/sub", "item/sub/deeper"}) {
    EXPECT_TRUE(calls->has_synced(target() / name)) << name;
  }
}

TEST_F(HandlerFiles, WrittenPastTheContextBelongToTheCheckpoint) {
  save(write_past_the_context);

  const store::CommittedDirectory committed = store::CommittedDirectory::open(io::posix_syscalls(), target());
  EXPECT_EQ(committed.read_verified("item/sub/deeper/own.txt", 100), "deeper");
}

Awaitable<Background<>> write_below(SaveContext context) {
  std::vector<Background<>> files;
  files.push_back(context.write_file("logs/2026/first.txt", "first"));
  files.push_back(context.write_file("logs/2026/second.txt", "second"));
  files.push_back(context.write_file("logs.txt", "beside"));
  co_return async::when_all(std::move(files));
}

TEST_F(HandlerFiles, MayLieInSubDirectories) {
  const auto calls = std::make_shared<SyncWatcher>();
  options_.engine = io::EngineKind::threads;
  options_.syscalls = calls;

  EXPECT_EQ(save(write_below).files, 3u);

  const store::CommittedDirectory committed = store::CommittedDirectory::open(io::posix_syscalls(), target());
  EXPECT_EQ(committed.read_verified("item/logs/2026/second.txt", 100), "second");
  for (const char* name : {"item", "item/logs", "item/logs/2026"}) {
    EXPECT_TRUE(calls->has_synced(target() / name)) << name;
  }
}

Background<> log_much(FileStream log) {
  const std::string line(1000, 'x');
  for (int i = 0; i < 3000; ++i) {
    co_await log.write(line);
  }
  co_await log.finish();
}

Awaitable<Background<>> write_a_stream(SaveContext context) {
  co_return log_much(context.stream_file("logs/all.txt"));
}

TEST_F(HandlerFiles, MayBeStreams) {
  const SaveResult result = save(write_a_stream);

  EXPECT_EQ(result.bytes, 3'000'000u);
  const store::CommittedDirectory committed = store::CommittedDirectory::open(io::posix_syscalls(), target());
  EXPECT_EQ(committed.read_verified("item/logs/all.txt", 4'000'000), std::string(3'000'000, 'x'));
}

Background<> log_half(FileStream log) {
  co_await log.write("half");
}

Awaitable<Background<>> leave_a_stream(SaveContext context) {
  co_return log_half(context.stream_file("half.txt"));
}

TEST_F(HandlerFiles, OfStreamsThatAreNotFinishedFailTheSave) {
  EXPECT_THAT([&] { save(leave_a_stream); }, Fails(Errc::handler_failed, HasSubstr("'item/half.txt'")));
  EXPECT_THAT(testing::list_tree(directory_.path()), ::testing::IsEmpty());
}

}  // namespace
}  // namespace cairn
