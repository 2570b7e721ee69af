// SPDX-License-Identifier: Apache-2.0
#include "store/internal/store.hpp"

#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/memory_store.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::FailsWithErrno;

enum class Kind { directory, memory };

/// Every store must do this.
class Stores : public ::testing::TestWithParam<Kind> {
 protected:
  [[nodiscard]] const Store& store() const {
    return GetParam() == Kind::memory ? memory_ : directory_store();
  }
  [[nodiscard]] io::Syscalls& syscalls() const { return engine_->syscalls(); }
  [[nodiscard]] std::unique_ptr<NewCheckpoint> begin(StagedOptions options = {}) const {
    const auto target = store().look(syscalls(), path_, options.overwrite, 0);
    auto made = target->create(*engine_, std::move(options));
    made->make_directory("state");
    return made;
  }
  static io::FileDigest write(NewCheckpoint& made, const std::string& name, std::string_view text) {
    const auto file = made.create_file(name, io::NewFileOptions());
    const auto bytes = std::as_bytes(std::span(text));
    testing::run(file->write(1, bytes.subspan(1)));
    testing::run(file->write(0, bytes.first(1)));
    testing::run(file->finish(bytes.size()));
    return store::digest_of(name, text);
  }
  void save(std::string_view text, StagedOptions options = {}) const {
    const auto made = begin(std::move(options));
    const io::FileDigest digest = write(*made, "state/data", text);
    made->publish(sample_manifest(), std::span(&digest, 1), {});
  }
  [[nodiscard]] std::shared_ptr<const Source> open() const { return store().open(syscalls(), path_); }
  [[nodiscard]] std::string read(const std::string& name) const {
    const auto source = open();
    const auto file = source->open_file(*engine_, name, false);
    std::string text(source->file_bytes(name).value(), '\0');
    const auto bytes = std::as_writable_bytes(std::span(text));
    testing::run(file->read(0, bytes.first(1)));
    file->read_now(1, bytes.subspan(1));
    EXPECT_EQ(source->digest(name)->chunks, store::digest_of(name, text).chunks);
    return text;
  }

  const testing::TempDir temp_;
  const testing::MemoryStore memory_{};
  const std::filesystem::path path_ = temp_ / "step";
  const std::unique_ptr<io::Engine> engine_ = io::make_engine(io::EngineKind::threads).engine;
};

TEST_P(Stores, GiveWhatWasPublished) {
  save("text");

  EXPECT_EQ(read("state/data"), "text");
  EXPECT_THAT(open()->files("state"), ElementsAre("data"));
  EXPECT_EQ(open()->file_bytes("state/other"), std::nullopt);
  EXPECT_EQ(open()->items().front().handler_id, "cairn.json/1");
  EXPECT_TRUE(open()->is_described_by(open()->manifest_text()));
  EXPECT_THAT([&] { static_cast<void>(open()->open_file(*engine_, "state/other", false)); },
              Fails(Errc::not_found));
}

TEST_P(Stores, ShowNothingBeforeItIsPublished) {
  const auto made = begin();
  write(*made, "state/data", "text");

  EXPECT_THAT([&] { static_cast<void>(open()); }, Fails(Errc::not_found));
  made->abandon();
  EXPECT_EQ(made->abandonment_problem(), "");
  EXPECT_THAT([&] { static_cast<void>(open()); }, Fails(Errc::not_found));
  save("another");
  EXPECT_EQ(read("state/data"), "another");
}

TEST_P(Stores, MakeAFileOnce) {
  const auto made = begin();
  write(*made, "state/data", "text");

  EXPECT_THAT([&] { static_cast<void>(made->create_file("state/data", io::NewFileOptions())); },
              FailsWithErrno(EEXIST, ::testing::HasSubstr("data")));
}

TEST_P(Stores, ReplaceOnlyWhereTheyAreToldTo) {
  save("old");
  const auto before = open();

  EXPECT_THAT([&] { save("new"); }, Fails(Errc::already_exists));
  EXPECT_EQ(read("state/data"), "old");
  save("new", overwriting());
  EXPECT_EQ(read("state/data"), "new");
  EXPECT_NE(open()->manifest()->uuid, before->manifest()->uuid);
}

TEST_P(Stores, LeaveTheOldOneWhereTheNewOneMayNotBePublished) {
  save("old");
  StagedOptions options = overwriting();
  options.may_publish = [] { return false; };

  EXPECT_THAT([&] { save("new", options); }, Fails(Errc::cancelled));
  EXPECT_EQ(read("state/data"), "old");
}

TEST_P(Stores, LetTheFirstOfTwoWriters) {
  const auto late = begin();
  const io::FileDigest digest = write(*late, "state/data", "late");
  save("early");

  EXPECT_THAT([&] { late->publish(sample_manifest(), std::span(&digest, 1), {}); },
              Fails(Errc::already_exists));
  EXPECT_EQ(read("state/data"), "early");
}

TEST_P(Stores, TakeTheFilesOfAnotherRank) {
  StagedOptions options;
  options.uuid = make_uuid(system_random);
  JoinOptions how;
  how.uuid = *options.uuid;
  const auto first = begin(options);
  first->make_directory(".chunks");
  const auto second = store().find(syscalls(), path_, 0)->join(*engine_, how);
  const io::FileDigest of_first = write(*first, "state/a", "first");
  const io::FileDigest of_second = write(*second, "state/b", "second");
  const std::vector<FileEntry> others = second->prepare(std::span(&of_second, 1));
  second->hand_over();
  Manifest manifest = sample_manifest();
  manifest.world_size = 2;

  first->publish(manifest, std::span(&of_first, 1), others);

  EXPECT_EQ(second->decide_alone(), LoneVerdict::committed);
  EXPECT_EQ(read("state/a") + read("state/b"), "firstsecond");
}

TEST_P(Stores, LetARankDecideThatHearsNothing) {
  StagedOptions options;
  options.uuid = make_uuid(system_random);
  JoinOptions how;
  how.uuid = *options.uuid;
  const auto first = begin(options);
  const auto second = store().find(syscalls(), path_, 0)->join(*engine_, how);
  second->hand_over();

  EXPECT_EQ(second->decide_alone(), LoneVerdict::aborted);

  EXPECT_ANY_THROW(first->publish(sample_manifest(), {}, {}));
  EXPECT_THAT([&] { static_cast<void>(open()); }, Fails(Errc::not_found));
}

INSTANTIATE_TEST_SUITE_P(Each, Stores, ::testing::Values(Kind::directory, Kind::memory),
                         [](const auto& each) {
                           return each.param == Kind::memory ? "Memory" : "Directory";
                         });

}  // namespace
}  // namespace cairn::store
