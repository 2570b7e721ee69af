// SPDX-License-Identifier: Apache-2.0
// Every function that takes a path, a name or options, with arguments that make no sense: it works or throws an
// Error, whose text a terminal can show, and touches nothing but what was named.
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/staging/device_copier.hpp"

#include "api/fixture.hpp"
#include "base/internal/printable.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/staged_directory.hpp"
#include "store/internal/verify.hpp"
#include "support/unsynced_syscalls.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using namespace std::string_literals;

/// Texts that nobody means as a name, and that somebody passes all the same.
std::vector<std::string> odd_texts() {
  return {"",
          ".",
          "..",
          "/",
          "//",
          "./",
          "../",
          "a/",
          "a//",
          "a/.",
          "a/..",
          "a/../b",
          "/dev/null",
          "/dev/null/x",
          "/proc/self/mem",
          "\0"s,
          "a\0b"s,
          "a\0"s,
          "\x1b[2J\x07",
          "new\nline",
          "\xff\xfe",
          "\xc0\xaf",
          "a\u202e z",
          " ",
          "~",
          "*",
          "%",
          "%s%n",
          "{}",
          "{0}",
          "checkpoint.json",
          "COMMIT",
          ".tmp-a-00000000-0000-4000-8000-000000000000",
          ".trash-a-00000000-0000-4000-8000-000000000000",
          "a.g2",
          "a.g4294967296",
          std::string(255, 'n'),
          std::string(256, 'n'),
          std::string(5000, 'n'),
          std::string(5000, '/'),
          "x/" + std::string(4094, 'y')};
}

/// Works in a directory two levels below one of the test's own, so that ".." is the test's, too.
class OddArguments : public testing::ApiTest {
 protected:
  OddArguments() : ApiTest(unsynced()), before_(fs::current_path()) {
    fs::create_directories(here());
    fs::current_path(here());
  }
  ~OddArguments() override { fs::current_path(before_); }

  static ContextOptions unsynced() {
    ContextOptions options = small();
    options.syscalls = std::make_shared<testing::UnsyncedSyscalls>();
    return options;
  }

  [[nodiscard]] fs::path here() const { return directory_ / "outer/inner"; }

  /// Calls `act` with every odd text; returns what went wrong.
  static std::vector<std::string> try_all(const std::function<void(const std::string&)>& act) {
    std::vector<std::string> wrong;
    for (const std::string& text : odd_texts()) {
      const std::string shown = "'" + printable(text.substr(0, 60)) + "': ";
      try {
        act(text);
      } catch (const Error& error) {
        if (printable(error.what()) != error.what()) {
          wrong.push_back(shown + "the text has control characters: " + printable(error.what()));
        }
      } catch (const std::exception& error) {
        wrong.push_back(shown + "threw no Error: " + printable(error.what()));
      }
    }
    return wrong;
  }

  const fs::path before_;
};

TEST_F(OddArguments, AsThePathOfASave) {
  EXPECT_THAT(try_all([&](const std::string& path) { save(path, tree_, {}, *context_); }), IsEmpty());
  EXPECT_THAT(try_all([&](const std::string& path) {
                SaveOptions options;
                options.overwrite = true;
                save(path, tree_, options, *context_);
              }),
              IsEmpty());
  EXPECT_THAT(try_all([&](const std::string& path) { save_async(path, tree_, {}, *context_).wait(); }),
              IsEmpty());
  EXPECT_THAT(try_all([&](const std::string& path) {
                save_checkpointables(path, {{"x", tree_}}, {}, *context_);
              }),
              IsEmpty());
  EXPECT_THAT(testing::list_tree(directory_ / "outer"),
              ::testing::Not(::testing::Contains(HasSubstr(".tmp-"))));
}

TEST_F(OddArguments, AsThePathOfALoad) {
  EXPECT_THAT(try_all([&](const std::string& path) { static_cast<void>(load(path, {}, *context_)); }),
              IsEmpty());
  EXPECT_THAT(try_all([&](const std::string& path) {
                static_cast<void>(load_checkpointables(path, {"x"}, {}, *context_));
              }),
              IsEmpty());
  EXPECT_THAT(try_all([&](const std::string& path) { static_cast<void>(metadata(path, *context_)); }),
              IsEmpty());
  EXPECT_THAT(
      try_all([&](const std::string& path) { static_cast<void>(checkpointables_metadata(path, *context_)); }),
      IsEmpty());
}

TEST_F(OddArguments, AsThePathOfWhatIsRemovedRecoveredOrVerified) {
  save("a", tree_, {}, *context_);
  io::Syscalls& syscalls = io::posix_syscalls();

  EXPECT_THAT(try_all([&](const std::string& path) { static_cast<void>(store::verify(syscalls, path)); }),
              IsEmpty());
  EXPECT_THAT(try_all([&](const std::string& path) {
                store::RecoveryOptions options;
                options.dry_run = true;
                static_cast<void>(store::recover(syscalls, path, options));
              }),
              IsEmpty());
  EXPECT_THAT(try_all([&](const std::string& path) {
                static_cast<void>(store::CommittedDirectory::open(syscalls, path));
              }),
              IsEmpty());
  EXPECT_THAT(
      try_all([&](const std::string& path) { static_cast<void>(io::Directory::open(syscalls, path)); }),
      IsEmpty());
  EXPECT_THAT(try_all([&](const std::string& path) {
                const io::EngineChoice choice = io::make_engine(io::EngineKind::threads);
                static_cast<void>(store::StagedDirectory::create(*choice.engine, path));
              }),
              IsEmpty());
  EXPECT_EQ(load("a", {}, *context_), tree_);
  EXPECT_THAT(try_all([&](const std::string& path) { remove_checkpoint(path, {}, *context_); }), IsEmpty());
}

TEST_F(OddArguments, ThatAreEmptyOrHoldANulAreInvalidPaths) {
  save("a", tree_, {}, *context_);
  const std::vector<std::function<void(const fs::path&)>> calls = {
      [&](const fs::path& path) { save(path, tree_, {}, *context_); },
      [&](const fs::path& path) { static_cast<void>(load(path, {}, *context_)); },
      [&](const fs::path& path) { static_cast<void>(metadata(path, *context_)); },
      [&](const fs::path& path) { remove_checkpoint(path, {}, *context_); },
      [&](const fs::path& path) { static_cast<void>(store::verify(io::posix_syscalls(), path)); },
      [&](const fs::path& path) { static_cast<void>(store::recover(io::posix_syscalls(), path)); },
      [&](const fs::path& path) {
        static_cast<void>(store::CommittedDirectory::open(io::posix_syscalls(), path));
      },
      [&](const fs::path& path) { static_cast<void>(trace_to_file(path)); }};

  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_THAT([&] { calls[i](""); }, Fails(Errc::invalid_argument, HasSubstr("the path is empty"))) << i;
    EXPECT_THAT([&] { calls[i]("a\0b"s); }, Fails(Errc::invalid_argument, HasSubstr("'a\\x00b' holds a NUL")))
        << i;
  }
  EXPECT_EQ(load("a", {}, *context_), tree_);
}

TEST_F(OddArguments, LikeACurrentDirectoryThatIsGoneAreErrors) {
  const fs::path gone = directory_ / "gone";
  fs::create_directory(gone);
  fs::current_path(gone);
  fs::remove(gone);

  EXPECT_THAT([&] { save("a", tree_, {}, *context_); },
              testing::FailsWithErrno(ENOENT, HasSubstr("the current directory")));
  EXPECT_THAT([&] { static_cast<void>(load("a", {}, *context_)); },
              testing::FailsWithErrno(ENOENT, HasSubstr("the current directory")));
  fs::current_path(here());
}

TEST_F(OddArguments, AsNamesOfCheckpointablesAreSavedOrRefused) {
  int number = 0;

  EXPECT_THAT(try_all([&](const std::string& name) {
                const std::string path = std::to_string(number++);
                try {
                  save_checkpointables(path, {{name, tree_}}, {}, *context_);
                } catch (const Error& error) {
                  EXPECT_EQ(error.code(), Errc::invalid_argument) << error.what();
                  EXPECT_FALSE(fs::exists(path));
                  throw;
                }
                EXPECT_EQ(load_checkpointables(path, {name}, {}, *context_).take<Tree>(name), tree_);
                EXPECT_TRUE(checkpointables_metadata(path, *context_).items.contains(name));
                EXPECT_TRUE(store::verify(io::posix_syscalls(), path).is_sound());
              }),
              IsEmpty());
  EXPECT_THAT(try_all([&](const std::string& name) {
                static_cast<void>(load_checkpointables("0", {name}, {}, *context_));
              }),
              IsEmpty());
}

TEST_F(OddArguments, AsKeysOfATreeAreSavedOrRefused) {
  SaveOptions options;
  options.overwrite = true;

  EXPECT_THAT(try_all([&](const std::string& key) {
                Tree tree;
                tree[key] = std::vector<float>{1};
                save("t", tree, options, *context_);
                EXPECT_EQ(load("t", {}, *context_), tree);
                EXPECT_EQ(metadata("t", *context_), AbstractTree(tree));
              }),
              IsEmpty());
  EXPECT_THAT(try_all([&](const std::string& path) { static_cast<void>(tree_.at(path)); }), IsEmpty());
  EXPECT_THAT(try_all([&](const std::string& path) { static_cast<void>(metadata("t", *context_).at(path)); }),
              IsEmpty());
}

/// Writes, or reads, a file of the name that it is.
struct Named {
  std::string file;
};

class NamedHandler final : public CheckpointableHandler<Named> {
 public:
  std::string_view id() const noexcept override { return "test.named/1"; }

  // outlives: used before the first suspension.
  Awaitable<Background<>> save(SaveContext context, const Named& value) const override {
    co_return context.write_file(value.file, "content");
  }
  Awaitable<Background<Named>> load(LoadContext context, std::optional<Named> wanted) const override {
    co_return read(std::move(context), wanted.value_or(Named()));
  }
  Awaitable<Named> metadata(LoadContext) const override { co_return Named(); }

 private:
  static Background<Named> read(LoadContext context, Named wanted) {
    EXPECT_EQ(co_await context.read_file(wanted.file), "content");
    co_return wanted;
  }
};

TEST_F(OddArguments, AsNamesOfFilesOfHandlersAreWrittenOrRefused) {
  ContextOptions context_options = small();
  context_options.registry.add<NamedHandler>();
  const Context context(context_options);
  SaveOptions options;
  options.overwrite = true;

  EXPECT_THAT(
      try_all([&](const std::string& file) {
        const Named named{file};
        save_checkpointables("n", {{"named", named}}, options, context);
        EXPECT_EQ(load_checkpointables("n", {{"named", named}}, {}, context).take<Named>("named").file, file);
      }),
      IsEmpty());
  EXPECT_THAT(try_all([&](const std::string& file) {
                static_cast<void>(load_checkpointables("n", {{"named", Named{file}}}, {}, context));
              }),
              IsEmpty());
  EXPECT_THAT(testing::list_tree(directory_ / "outer"), ::testing::Each(HasSubstr("inner")));
}

TEST_F(OddArguments, AsPathsOfTracesAreProblemsOfTheSave) {
  EXPECT_THAT(try_all([&](const std::string& path) {
                SaveOptions options;
                options.overwrite = true;
                options.trace = trace_to_file(path);
                save("traced", tree_, options, *context_);
              }),
              IsEmpty());
  EXPECT_EQ(load("traced", {}, *context_), tree_);
}

TEST_F(OddArguments, AsCustomMetadataAreRefused) {
  EXPECT_THAT(try_all([&](const std::string& text) {
                SaveOptions options;
                options.custom_metadata = text;
                save("custom", tree_, options, *context_);
                EXPECT_EQ(text, "{}");
              }),
              IsEmpty());
}

TEST_F(OddArguments, AsDirectoriesToVerifyAreNamed) {
  save("a", tree_, {}, *context_);

  EXPECT_THAT(try_all([&](const std::string& name) {
                store::VerifyOptions options;
                options.directory = name;
                static_cast<void>(store::verify(io::posix_syscalls(), "a", options));
              }),
              IsEmpty());
}

TEST_F(OddArguments, AsNumbersInOptionsOfASaveAndALoad) {
  using std::chrono::nanoseconds;
  for (const nanoseconds deadline :
       {nanoseconds::min(), nanoseconds(-1), nanoseconds(1), nanoseconds::max()}) {
    SaveOptions saving;
    saving.overwrite = true;
    saving.deadline = deadline;
    LoadOptions loading;
    loading.deadline = deadline;
    const auto try_both = [&] {
      save("deadline", tree_, saving, *context_);
      EXPECT_EQ(load("deadline", loading, *context_), tree_);
    };
    if (deadline == nanoseconds::max()) {
      EXPECT_NO_THROW(try_both());
    } else {
      try {
        try_both();
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == Errc::timed_out || error.code() == Errc::invalid_argument)
            << error.what();
      }
    }
  }
  SaveOptions snapshot;
  snapshot.snapshot = static_cast<Snapshot>(77);
  EXPECT_THAT([&] { save("snapshot", tree_, snapshot, *context_); }, Fails(Errc::invalid_argument));
  SaveOptions dtype;
  dtype.handler_options.set(ArrayOptions(static_cast<DType>(200)));
  const Tree array = {{"w", std::vector<float>{1}}};
  EXPECT_THAT([&] { save("dtype", array, dtype, *context_); }, Fails(Errc::invalid_argument));
}

TEST_F(OddArguments, AsNumbersInOptionsOfAContext) {
  const auto try_context = [&](const std::function<void(ContextOptions&)>& change) {
    ContextOptions options = small();
    change(options);
    try {
      Context context(options);
      SaveOptions overwriting;
      overwriting.overwrite = true;
      save("context", tree_, overwriting, context);
      EXPECT_EQ(load("context", {}, context), tree_);
      context.close();
    } catch (const Error& error) {
      EXPECT_EQ(printable(error.what()), error.what());
    }
  };

  try_context([](ContextOptions& options) { options.engine = static_cast<io::EngineKind>(99); });
  for (const std::uint32_t depth : {0U, 1U, 100'000U, std::numeric_limits<std::uint32_t>::max()}) {
    try_context([&](ContextOptions& options) { options.queue_depth = depth; });
    try_context([&](ContextOptions& options) {
      options.queue_depth = depth;
      options.engine = io::EngineKind::automatic;
    });
  }
  for (const std::size_t count : {std::size_t{1}, std::numeric_limits<std::size_t>::max()}) {
    try_context([&](ContextOptions& options) { options.saves_in_flight = count; });
    try_context([&](ContextOptions& options) { options.staging_bytes = count; });
    try_context([&](ContextOptions& options) { options.reserve_bytes = count; });
    try_context([&](ContextOptions& options) { options.worker_threads = count; });
  }
  try_context([](ContextOptions& options) { options.saves_in_flight = 0; });
  for (const int niceness : {std::numeric_limits<int>::min(), -1, 0, 20, std::numeric_limits<int>::max()}) {
    try_context([&](ContextOptions& options) { options.background_niceness = niceness; });
  }
  using std::chrono::nanoseconds;
  for (const nanoseconds timeout :
       {nanoseconds::min(), nanoseconds(-1), nanoseconds(0), nanoseconds::max()}) {
    try_context([&](ContextOptions& options) { options.close_timeout = timeout; });
  }
  try_context([](ContextOptions& options) { options.copiers.push_back(nullptr); });
  try_context([](ContextOptions& options) { options.random = nullptr; });
}

}  // namespace
}  // namespace cairn
