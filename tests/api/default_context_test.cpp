// SPDX-License-Identifier: Apache-2.0
// The default context at the end of a program, when other static objects are destroyed.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "cairn/cairn.hpp"

#include "api/fixture.hpp"

namespace cairn {
namespace {

/// Saves when it is destroyed, and says what came of it.
class SavesAtTheEnd {
 public:
  explicit SavesAtTheEnd(std::filesystem::path path) : path_(std::move(path)) {}
  ~SavesAtTheEnd() {
    try {
      save(path_, Tree({{"step", 1}}));
      std::fputs("saved\n", stderr);
    } catch (const Error& error) {
      std::fputs(error.code() == Errc::closed ? "refused: closed\n" : "refused otherwise\n", stderr);
    }
  }
  SavesAtTheEnd(const SavesAtTheEnd&) = delete;
  SavesAtTheEnd& operator=(const SavesAtTheEnd&) = delete;

 private:
  std::filesystem::path path_;
};

/// Says at the end whether there is a checkpoint.
class LooksAtTheEnd {
 public:
  explicit LooksAtTheEnd(std::filesystem::path path) : path_(std::move(path)) {}
  ~LooksAtTheEnd() {
    std::fputs(std::filesystem::exists(path_ / "COMMIT") ? "committed\n" : "missing\n", stderr);
  }
  LooksAtTheEnd(const LooksAtTheEnd&) = delete;
  LooksAtTheEnd& operator=(const LooksAtTheEnd&) = delete;

 private:
  std::filesystem::path path_;
};

class DefaultContext : public ::testing::Test {
 protected:
  DefaultContext() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  const testing::TempDir directory_;
};

TEST_F(DefaultContext, RefusesSavesOfObjectsThatOutliveIt) {
  const std::filesystem::path path = directory_ / "late";

  EXPECT_EXIT(
      {
        static const SavesAtTheEnd before_the_context(path);
        static_cast<void>(default_context());
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "refused: closed");
}

TEST_F(DefaultContext, ServesObjectsThatItOutlives) {
  const std::filesystem::path path = directory_ / "last";

  EXPECT_EXIT(
      {
        static_cast<void>(default_context());
        static const SavesAtTheEnd after_the_context(path);
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "saved");
}

TEST_F(DefaultContext, WaitsForSavesInFlightAtTheEnd) {
  const std::filesystem::path path = directory_ / "flight";

  EXPECT_EXIT(
      {
        static const LooksAtTheEnd before_the_context(path);
        static_cast<void>(save_async(path, Tree({{"step", 1}})));
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "committed");
}

}  // namespace
}  // namespace cairn
