// SPDX-License-Identifier: Apache-2.0
// Loads find what saves wrote, whatever the path looks like: both leave its meaning to the kernel.
#include <filesystem>

#include <gmock/gmock.h>

#include "core/blob_handler.hpp"
#include "core/internal/start.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;

using testing::AbstractBlob;
using testing::Blob;
using testing::Fails;
using ::testing::HasSubstr;
using testing::make_blob;

/// `here/link` is a link to `there/deep`: by text `here/link/..` is `here`, for the kernel it is `there`.
class Paths : public ::testing::Test {
 protected:
  Paths() {
    fs::create_directories(directory_ / "here");
    fs::create_directories(directory_ / "there/deep");
    fs::create_directory_symlink(directory_ / "there/deep", directory_ / "here/link");
  }

  void save(const fs::path& path, const Blob& blob) const {
    core::start_save(path, {{"blob", blob}}, registry_, SaveOptions(), context_).wait();
  }

  Blob load(const fs::path& path) const {
    return core::start_load(path, {}, registry_, LoadOptions(), context_).wait().take<Blob>("blob");
  }

  std::uint64_t described(const fs::path& path) const {
    return core::read_metadata(path, {}, registry_, LoadOptions(), context_)
        .at("blob")
        .as<AbstractBlob>()
        .size;
  }

  testing::TempDir directory_;
  RegistrySnapshot registry_ = testing::blob_registry();
  Context context_;
};

TEST_F(Paths, BehindALinkNameTheSameCheckpointForSavesAndLoads) {
  save(directory_ / "here/step", make_blob(1));
  save(directory_ / "here/link/../step", make_blob(2));

  EXPECT_TRUE(fs::exists(directory_ / "there/step"));
  EXPECT_EQ(load(directory_ / "here/link/../step"), make_blob(2));
  EXPECT_EQ(described(directory_ / "here/link/../step"), 2u);
  EXPECT_EQ(load(directory_ / "here/link/../step/"), make_blob(2));
}

TEST_F(Paths, BehindALinkNameTheCheckpointableOfThatCheckpoint) {
  save(directory_ / "here/step", make_blob(1));
  save(directory_ / "here/link/../step", make_blob(2));

  EXPECT_EQ(load(directory_ / "here/link/../step/blob"), make_blob(2));
}

TEST_F(Paths, BehindALinkAreNotFoundWhereTheKernelFindsNothing) {
  save(directory_ / "here/step", make_blob(1));

  EXPECT_THAT([&] { load(directory_ / "here/link/../step"); },
              Fails(Errc::not_found, HasSubstr("here/link/../step")));
}

TEST_F(Paths, MayEndInSlashesAndDots) {
  save(directory_ / "here/step", make_blob(3));
  const fs::path step = directory_ / "here/step";

  for (const char* end : {"/", "//", "/.", "/./", "/blob/..", "/blob/../", "/blob", "/blob/", "/blob/."}) {
    EXPECT_EQ(load(step.string() + end), make_blob(3)) << end;
  }
}

TEST_F(Paths, MayBeRelative) {
  save(directory_ / "here/step", make_blob(3));
  const fs::path before = fs::current_path();
  fs::current_path(directory_ / "here/step/blob");

  EXPECT_EQ(load("../../step"), make_blob(3));
  EXPECT_EQ(load(".."), make_blob(3));
  EXPECT_EQ(load("."), make_blob(3));
  fs::current_path(before);
}

TEST_F(Paths, OfTemporaryDirectoriesAreRefusedHoweverTheyAreWritten) {
  fs::create_directories(directory_ / "here/.tmp-step-0/blob");

  for (const char* end : {"", "/.", "/blob", "/blob/.", "/blob/.."}) {
    EXPECT_THAT([&] { load(directory_ / ("here/.tmp-step-0" + std::string(end))); },
                Fails(Errc::not_committed, HasSubstr("temporary")))
        << end;
  }
}

}  // namespace
}  // namespace cairn
