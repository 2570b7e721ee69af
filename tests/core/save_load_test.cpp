// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <chrono>
#include <string>

#include <gmock/gmock.h>

#include "async/internal/event.hpp"
#include "core/blob_handler.hpp"
#include "core/internal/start.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

using testing::AbstractBlob;
using ::testing::AllOf;
using testing::Blob;
using testing::blob_registry;
using testing::BlobHandler;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::make_blob;
using ::testing::Not;
using testing::TempDir;

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Saves and loads on an engine and with a byte budget that are the test's parameters.
class SaveAndLoad : public ::testing::TestWithParam<io::EngineKind> {
 protected:
  static ContextOptions context_options() {
    ContextOptions options;
    options.engine = GetParam();
    options.staging_bytes = 64 * kMiB;
    return options;
  }

  void SetUp() override {
    try {
      context_.emplace(context_options());
    } catch (const Error& error) {
      GTEST_SKIP() << "no such engine here: " << error.what();
    }
  }

  AsyncResponse start(const Checkpointables& items, const SaveOptions& options = {}) {
    return core::start_save(target(), items, registry_, options, *context_);
  }

  Loaded load(const Requests& requests = {}) {
    return core::start_load(target(), requests, registry_, LoadOptions(), *context_).wait();
  }

  std::filesystem::path target() const { return directory_ / "checkpoint"; }

  TempDir directory_;
  RegistrySnapshot registry_ = blob_registry();
  std::optional<Context> context_;
};

TEST_P(SaveAndLoad, GivesBackWhatWasSaved) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, 5 * kMiB + 17, 12 * kMiB}) {
    const Blob blob = make_blob(size);
    SaveOptions options;
    options.overwrite = true;

    const SaveResult result = start({{"blob", blob}}, options).wait();

    EXPECT_EQ(load().take<Blob>("blob"), blob) << size;
    EXPECT_EQ(result.bytes, size);
  }
}

TEST_P(SaveAndLoad, KeepsWhatItSawWhenTheCallerChangesItAfterStaging) {
  Blob blob = make_blob(9 * kMiB);
  const Blob before = blob;

  const AsyncResponse saving = start({{"blob", blob}});
  blob = make_blob(9 * kMiB, 7);
  saving.wait();

  EXPECT_EQ(load().take<Blob>("blob"), before);
}

TEST_P(SaveAndLoad, StreamsAStateThatIsLargerThanTheBudget) {
  ContextOptions small = context_options();
  small.staging_bytes = 8 * kMiB;
  const Context context(small);
  const Blob blob = make_blob(70 * kMiB + 3);

  core::start_save(target(), {{"blob", blob}}, registry_, SaveOptions(), context).wait();

  EXPECT_EQ(load().take<Blob>("blob"), blob);
  EXPECT_LE(context.pool_bytes(), 8 * kMiB);
}

TEST_P(SaveAndLoad, BorrowsMemoryWithoutCopyingIt) {
  const Blob blob = make_blob(9 * kMiB + 5);
  SaveOptions options;
  options.snapshot = Snapshot::borrow;

  start({{"blob", blob}}, options).wait();

  EXPECT_EQ(load().take<Blob>("blob"), blob);
}

TEST_P(SaveAndLoad, KeepsSeveralCheckpointablesApart) {
  const Blob first = make_blob(kMiB, 1);
  const Blob second = make_blob(kMiB, 2);

  start({{"a/b", first}, {"..", second}}).wait();
  Loaded loaded = load({"..", "a/b"});

  EXPECT_EQ(loaded.take<Blob>("a/b"), first);
  EXPECT_EQ(loaded.take<Blob>(".."), second);
}

TEST_P(SaveAndLoad, OverwritesOnlyWhenAsked) {
  const Blob first = make_blob(100, 1);
  const Blob second = make_blob(100, 2);
  SaveOptions overwrite;
  overwrite.overwrite = true;

  start({{"blob", first}}).wait();
  EXPECT_THAT(
      [&] {
        start({{"blob", second}}).wait();
      },
      Fails(Errc::already_exists, HasSubstr(target().string())));
  EXPECT_EQ(load().take<Blob>("blob"), first);
  start({{"blob", second}}, overwrite).wait();

  EXPECT_EQ(load().take<Blob>("blob"), second);
  EXPECT_THAT(testing::list_tree(directory_.path()), Not(::testing::Contains(HasSubstr(".tmp-"))));
}

TEST_P(SaveAndLoad, DescribesWithoutReadingData) {
  const Blob blob = make_blob(3 * kMiB);
  SaveOptions options;
  options.custom_metadata = R"({"note": "x"})";

  start({{"blob", blob}}, options).wait();
  const CheckpointMetadata metadata = core::read_metadata(target(), {}, registry_, LoadOptions(), *context_);

  EXPECT_EQ(metadata.at("blob").as<AbstractBlob>().size, 3 * kMiB);
  EXPECT_EQ(metadata.at("blob").handler_id, "test.blob/1");
  EXPECT_EQ(metadata.custom_metadata, R"({"note":"x"})");
}

TEST_P(SaveAndLoad, NamesTheFileAndTheChunkWhoseBytesChanged) {
  const Blob blob = make_blob(3 * kMiB);
  start({{"blob", blob}}).wait();
  const std::filesystem::path file = target() / "blob" / "blob.bin";
  std::string bytes = testing::read_text(file);
  bytes[2 * kMiB + 5] ^= 1;
  testing::write_text(file, bytes);

  EXPECT_THAT([&] { load(); }, Fails(Errc::checksum_mismatch, AllOf(HasSubstr("blob.bin"), HasSubstr("2"))));
}

INSTANTIATE_TEST_SUITE_P(Engines, SaveAndLoad,
                         ::testing::Values(io::EngineKind::uring, io::EngineKind::threads),
                         [](const auto& each) {
                           return each.param == io::EngineKind::uring ? "uring" : "threads";
                         });

}  // namespace
}  // namespace cairn
