// SPDX-License-Identifier: Apache-2.0
#include "store/internal/source.hpp"

#include <fcntl.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

/// A directory of mode 711: it may be entered, but not opened for reading.
class Unlistable final : public testing::ForwardingSyscalls {
 public:
  explicit Unlistable(std::filesystem::path path) : path_(std::move(path)) {}

  int open_at(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    if (path_ == path && (flags & O_PATH) == 0) {
      return -EACCES;
    }
    return ForwardingSyscalls::open_at(directory, path, flags, mode);
  }

 private:
  const std::filesystem::path path_;
};

class SourceInAnUnlistableDirectory : public ::testing::Test {
 protected:
  testing::TempDir temp_;
  Unlistable syscalls_{temp_.path()};
};

TEST_F(SourceInAnUnlistableDirectory, IsACheckpoint) {
  save_sample(*io::make_engine(io::EngineKind::threads).engine, temp_ / "step", "text");

  EXPECT_THAT(open_source(syscalls_, temp_ / "step")->files("state"), ElementsAre("data"));
  EXPECT_THAT(open_source(syscalls_, temp_ / "step/state")->files("state"), ElementsAre("data"));
}

TEST_F(SourceInAnUnlistableDirectory, IsAForeignFolder) {
  std::filesystem::create_directory(temp_ / "model");
  testing::write_text(temp_ / "model/one.safetensors", "1");

  EXPECT_THAT(open_source(syscalls_, temp_ / "model")->files(""), ElementsAre("one.safetensors"));
}

TEST_F(SourceInAnUnlistableDirectory, IsAForeignFile) {
  testing::write_text(temp_ / "one.safetensors", "1");

  EXPECT_EQ(open_source(syscalls_, temp_ / "one.safetensors")->file_bytes("one.safetensors"), 1u);
}

TEST_F(SourceInAnUnlistableDirectory, IsToldFromADirectoryOfCheckpoints) {
  std::filesystem::create_directory(temp_ / "run");
  save_sample(*io::make_engine(io::EngineKind::threads).engine, temp_ / "run/step", "text");

  EXPECT_THAT([&] { static_cast<void>(open_source(syscalls_, temp_ / "run")); },
              Fails(Errc::not_committed, AllOf(HasSubstr("it holds some"), HasSubstr("step"))));
}

TEST(SourceUnderANameOfCairns, IsNotCommitted) {
  const testing::TempDir temp;
  for (const char* name : {".tmp-step", ".trash-step"}) {
    std::filesystem::create_directories(temp / name / "state");
    testing::write_text(temp / name / "state/data.safetensors", "1");
    for (const auto& path : {temp / name, temp / name / "state"}) {
      EXPECT_THAT([&] { static_cast<void>(open_source(io::posix_syscalls(), path)); },
                  Fails(Errc::not_committed, HasSubstr(path.string())));
    }
  }
}

TEST(ForeignSource, OfAListHasTheFilesBesideItAndOfAnotherJsonFileItAlone) {
  const testing::TempDir temp;
  for (const char* name : {"model.safetensors.index.json", "config.json", "one.safetensors"}) {
    testing::write_text(temp / name, "{}");
  }
  std::filesystem::create_directory(temp / "folder");

  EXPECT_THAT(open_source(io::posix_syscalls(), temp / "model.safetensors.index.json")->files(""),
              ::testing::Contains("one.safetensors"));
  EXPECT_THAT(open_source(io::posix_syscalls(), temp / "config.json")->files(""), ElementsAre("config.json"));
}

TEST(SourceThatMayNotBeRead, SaysSo) {
  const testing::TempDir temp;
  Unlistable syscalls(temp.path());

  EXPECT_THAT([&] { static_cast<void>(open_source(syscalls, temp.path())); },
              testing::FailsWithErrno(EACCES, HasSubstr(temp.path().string())));
}

}  // namespace
}  // namespace cairn::store
