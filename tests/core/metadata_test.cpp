// SPDX-License-Identifier: Apache-2.0
// What is told of a checkpoint when a part of it cannot be described, and of paths that are parts of one.
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>

#include "core/blob_handler.hpp"
#include "core/internal/start.hpp"
#include "support/fails.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

using testing::AbstractBlob;
using ::testing::AllOf;
using testing::Blob;
using testing::BlobHandler;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::make_blob;

using Look = std::function<void(const LoadContext&)>;

/// Reads its file to describe it, or does something else instead.
class ReadingHandler final : public BlobHandler {
 public:
  explicit ReadingHandler(Look look = {}) : look_(std::move(look)) {}

  Awaitable<AbstractBlob> metadata(LoadContext context) const override {
    if (look_) {
      look_(context);
    }
    const std::string bytes = co_await context.read_file("blob.bin");
    co_return AbstractBlob(bytes.size());
  }

 private:
  Look look_;
};

class Metadata : public ::testing::Test {
 protected:
  Metadata() {
    core::start_save(target(), {{"a", blob_}, {"b", blob_}, {"c", blob_}}, testing::blob_registry(),
                     SaveOptions(), context_)
        .wait();
  }

  CheckpointMetadata describe(const std::filesystem::path& path, Look look = {}) const {
    HandlerRegistry registry;
    registry.add(std::make_shared<const ReadingHandler>(std::move(look)));
    return core::read_metadata(path, {}, registry.snapshot(), LoadOptions(), context_);
  }

  [[nodiscard]] std::filesystem::path target() const { return directory_ / "step"; }

  testing::TempDir directory_;
  const Blob blob_ = make_blob(1000);
  const Context context_;
};

TEST_F(Metadata, OfADamagedItemHidesNoOther) {
  testing::write_text(target() / "b/blob.bin", std::string(1000, 'x'));

  const CheckpointMetadata metadata = describe(target());

  EXPECT_EQ(metadata.at("a").as<AbstractBlob>().size, 1000u);
  EXPECT_EQ(metadata.at("c").as<AbstractBlob>().size, 1000u);
  EXPECT_EQ(metadata.at("b").bytes, 1000u);
  EXPECT_EQ(metadata.at("b").handler_id, "test.blob/1");
  EXPECT_THAT(metadata.at("b").problem,
              AllOf(HasSubstr("'b' (handler test.blob/1)"), HasSubstr("b/blob.bin")));
  EXPECT_EQ(metadata.at("b").problem_code, Errc::checksum_mismatch);
  EXPECT_THAT(metadata.at("a").problem, IsEmpty());
}

TEST_F(Metadata, OfADamagedItemThrowsWhenItIsAskedFor) {
  testing::write_text(target() / "b/blob.bin", std::string(1000, 'x'));

  const CheckpointMetadata metadata = describe(target());

  EXPECT_THAT([&] { static_cast<void>(metadata.at("b").as<AbstractBlob>()); },
              Fails(Errc::checksum_mismatch, HasSubstr("b/blob.bin")));
}

TEST_F(Metadata, OfAMissingItemHidesNoOther) {
  std::filesystem::remove_all(target() / "b");

  const CheckpointMetadata metadata = describe(target());

  EXPECT_EQ(metadata.at("a").as<AbstractBlob>().size, 1000u);
  EXPECT_EQ(metadata.at("b").problem_code, Errc::not_found);
}

TEST_F(Metadata, OfAHandlerThatThrowsHidesNoOther) {
  const CheckpointMetadata metadata = describe(target(), [](const LoadContext& context) {
    if (context.name() == "b") {
      throw std::runtime_error("out of luck");
    }
  });

  EXPECT_EQ(metadata.at("c").as<AbstractBlob>().size, 1000u);
  EXPECT_THAT(metadata.at("b").problem, HasSubstr("out of luck"));
  EXPECT_EQ(metadata.at("b").problem_code, Errc::handler_failed);
}

TEST_F(Metadata, OfACheckpointThatGoesSaysSo) {
  const auto look = [this](const LoadContext&) { std::filesystem::remove_all(target()); };

  EXPECT_THAT([&] { describe(target(), look); }, Fails(Errc::not_found, HasSubstr("step")));
}

TEST_F(Metadata, SaysThatTheProgramIsShortOfDescriptorsAndBlamesNoItem) {
  const auto look = [](const LoadContext& context) {
    if (context.name() == "b") {
      throw Error(std::error_code(EMFILE, std::system_category()), "open");
    }
  };

  EXPECT_THAT([&] { describe(target(), look); }, FailsWithErrno(EMFILE, HasSubstr("open")));
}

TEST_F(Metadata, OfAnItemsDirectoryKnowsWhereItsFilesAre) {
  std::filesystem::path seen;
  static_cast<void>(
      describe(target() / "b", [&](const LoadContext& context) { seen = context.directory().value(); }));

  EXPECT_EQ(seen, target() / "b");
}

TEST_F(Metadata, OfADamagedItemNamesItsFileOnce) {
  testing::write_text(target() / "b/blob.bin", std::string(1000, 'x'));

  const std::string problem = describe(target() / "b").at("b").problem;

  EXPECT_THAT(problem, HasSubstr((target() / "b/blob.bin").string()));
  EXPECT_THAT(problem, ::testing::Not(HasSubstr("b/b/blob.bin")));
}

/// Reads any folder with a file that is called so.
class StrayHandler final : public BlobHandler {
 public:
  std::string_view id() const noexcept override { return "test.stray/1"; }
  bool recognises(std::span<const std::string> files) const override {
    return std::find(files.begin(), files.end(), "blob.bin") != files.end();
  }
};

TEST_F(Metadata, OfADirectoryOfCheckpointsIsNotThatOfAStrayFileInIt) {
  testing::write_text(directory_ / "blob.bin", "");
  HandlerRegistry registry;
  registry.add<StrayHandler>();

  EXPECT_THAT(
      [&] { core::read_metadata(directory_.path(), {}, registry.snapshot(), LoadOptions(), context_); },
      Fails(Errc::not_committed, HasSubstr("'step'")));
}

TEST_F(Metadata, OfAForeignFileKnowsItsFolder) {
  const testing::TempDir folder;
  testing::write_text(folder / "blob.bin", "12345");
  std::filesystem::create_directory(folder / "beside");
  HandlerRegistry registry;
  registry.add<StrayHandler>();

  for (const auto& path : {folder.path(), folder / "blob.bin"}) {
    EXPECT_EQ(core::read_metadata(path, {}, registry.snapshot(), LoadOptions(), context_)
                  .at("state")
                  .as<AbstractBlob>()
                  .size,
              5u);
  }
}

}  // namespace
}  // namespace cairn
