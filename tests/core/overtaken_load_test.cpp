// SPDX-License-Identifier: Apache-2.0
// Saves that replace a checkpoint while a load of it is under way.
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "core/blob_handler.hpp"
#include "core/internal/start.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/remove_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

using testing::AbstractBlob;
using testing::Blob;
using testing::BlobHandler;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using testing::make_blob;

/// Lets somebody else act after a checkpoint was opened and before its file is read.
class InterruptedHandler final : public BlobHandler {
 public:
  explicit InterruptedHandler(std::function<void()> interrupt) : interrupt_(std::move(interrupt)) {}

  Awaitable<Background<Blob>> load(LoadContext context, std::optional<AbstractBlob> wanted) const override {
    std::function<void()> interrupt = interrupt_;
    co_await context.run(std::move(interrupt));
    co_return co_await BlobHandler::load(std::move(context), std::move(wanted));
  }

  Awaitable<AbstractBlob> metadata(LoadContext context) const override {
    std::function<void()> interrupt = interrupt_;
    co_await context.run(std::move(interrupt));
    const std::string bytes = co_await context.read_file("blob.bin");
    co_return AbstractBlob(bytes.size());
  }

 private:
  std::function<void()> interrupt_;
};

class OvertakenLoad : public ::testing::Test {
 protected:
  OvertakenLoad() { save(1); }

  /// Saves a blob of as many bytes, over what is there.
  void save(std::size_t bytes) {
    SaveOptions options;
    options.overwrite = true;
    const Context context;  // The load's own has threads that must not wait.
    core::start_save(target(), {{"blob", make_blob(bytes)}}, testing::blob_registry(), options, context)
        .wait();
  }

  RegistrySnapshot interrupted_by(std::function<void()> interrupt) const {
    return HandlerRegistry().add(std::make_shared<const InterruptedHandler>(std::move(interrupt))).snapshot();
  }

  LoadResponse start_load(std::function<void()> interrupt) {
    return core::start_load(target(), {}, interrupted_by(std::move(interrupt)), LoadOptions(), context_);
  }

  [[nodiscard]] std::filesystem::path target() const { return directory_ / "checkpoint"; }

  const testing::TempDir directory_;
  const Context context_;
};

TEST_F(OvertakenLoad, GivesTheNewCheckpoint) {
  bool is_first = true;

  Loaded loaded = start_load([&] {
                    if (std::exchange(is_first, false)) {
                      save(5);
                    }
                  }).wait();

  EXPECT_EQ(loaded.take<Blob>("blob"), make_blob(5));
}

TEST_F(OvertakenLoad, TakesAStaleFileForOneOfAReplacedCheckpoint) {
  bool is_first = true;
  const auto interrupt = [&] {
    if (std::exchange(is_first, false)) {
      save(5);
      throw_errno(ESTALE, "read", target());
    }
  };

  EXPECT_EQ(start_load(interrupt).wait().take<Blob>("blob"), make_blob(5));
}

TEST_F(OvertakenLoad, ReportsAStaleFileOfACheckpointThatStands) {
  const auto interrupt = [&] { throw_errno(ESTALE, "read", target()); };

  EXPECT_THAT([&] { static_cast<void>(start_load(interrupt).wait()); },
              FailsWithErrno(ESTALE, HasSubstr("read ")));
}

TEST_F(OvertakenLoad, SaysThatItBeganAgain) {
  bool is_first = true;

  const Loaded loaded = start_load([&] {
                          if (std::exchange(is_first, false)) {
                            save(5);
                          }
                        }).wait();

  EXPECT_THAT(loaded.result().fallbacks, ::testing::Contains(HasSubstr("the load began again")));
}

TEST_F(OvertakenLoad, CountsOnlyWhatItGives) {
  bool is_first = true;

  const Loaded loaded = start_load([&] {
                          if (std::exchange(is_first, false)) {
                            save(5);
                          }
                        }).wait();

  EXPECT_EQ(loaded.result().bytes, 5U);
}

TEST_F(OvertakenLoad, GivesUpWhenItIsOvertakenForEver) {
  std::size_t bytes = 1;

  EXPECT_THAT([&] { static_cast<void>(start_load([&] { save(++bytes); }).wait()); },
              Fails(Errc::not_found, HasSubstr("blob.bin")));
}

TEST_F(OvertakenLoad, OfACheckpointThatGoesSaysSo) {
  EXPECT_THAT(
      [&] {
        static_cast<void>(
            start_load([&] { store::remove_checkpoint(io::posix_syscalls(), target()); }).wait());
      },
      Fails(Errc::not_found,
            HasSubstr("blob.bin")));  // The file that was missed, not the look that came after.
}

TEST_F(OvertakenLoad, OfACheckpointThatAForeignFolderReplacesSaysWhatItMissed) {
  const auto interrupt = [&] {
    store::remove_checkpoint(io::posix_syscalls(), target());
    std::filesystem::create_directory(target());
    std::string file(8, '\0');
    file[0] = 2;
    testing::write_text(target() / "model.safetensors", file + "{}");
  };

  EXPECT_THAT([&] { static_cast<void>(start_load(interrupt).wait()); },
              Fails(Errc::not_found, HasSubstr("blob.bin")));
}

TEST_F(OvertakenLoad, OfMetadataGivesThatOfTheNewCheckpoint) {
  bool is_first = true;
  const auto interrupt = [&] {
    if (std::exchange(is_first, false)) {
      save(5);
    }
  };

  const CheckpointMetadata metadata =
      core::read_metadata(target(), {}, interrupted_by(interrupt), LoadOptions(), context_);

  EXPECT_EQ(metadata.at("blob").as<AbstractBlob>().size, 5U);
}

}  // namespace
}  // namespace cairn
