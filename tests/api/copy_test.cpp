// SPDX-License-Identifier: Apache-2.0
// A checkpoint is copied as it is, or nothing is made.
#include "cairn/api/copy.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "api/trees_of_ranks.hpp"
#include "store/internal/committed_directory.hpp"
#include "support/held_syscalls.hpp"
#include "support/manual_clock.hpp"

namespace cairn::testing {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CopyTest : public TreesOfRanks {
 protected:
  /// A context whose disk answers when the test says so.
  struct Slow {
    explicit Slow(ContextOptions options) {
      options.syscalls = disk;
      context = std::make_unique<Context>(std::move(options));
    }

    std::shared_ptr<HeldSyscalls> disk = std::make_shared<HeldSyscalls>();
    std::unique_ptr<Context> context;
  };

  [[nodiscard]] fs::path copy() const { return directory_ / "copy"; }

  void save_original(const Tree& state) const {
    SaveOptions options;
    options.custom_metadata = R"({"run":"first"})";
    options.annotations = R"({"example":{"loss":0.5}})";
    save(target(), state, options, *context_);
  }
  void save_original() const { save_original(large_); }

  SaveResult copy_it(const CopyOptions& options = {}) const {
    return copy_checkpoint(target(), copy(), options, *context_);
  }

  [[nodiscard]] static std::string read(const fs::path& path) { return read_text(path); }
  [[nodiscard]] std::string uuid_of(const fs::path& path) const {
    return store::to_string(store::CommittedDirectory::open(io::posix_syscalls(), path).manifest().uuid);
  }

  /// Changes a byte of the largest file, and returns its name.
  [[nodiscard]] std::string damage(const fs::path& checkpoint) const {
    const std::vector<std::string> names = list_tree(checkpoint);
    const auto largest = std::max_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
      return size_of(checkpoint / a) < size_of(checkpoint / b);
    });
    std::string bytes = read_text(checkpoint / *largest);
    bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
    write_text(checkpoint / *largest, bytes);
    return *largest;
  }
  [[nodiscard]] static std::uintmax_t size_of(const fs::path& path) {
    return fs::is_regular_file(path) ? fs::file_size(path) : 0;
  }

  /// The names of the directory of the checkpoints.
  [[nodiscard]] std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const Tree large_ = {{"w", std::vector<float>(3'000'000, 1.5F)},
                       {"b", std::vector<float>(17, 0.25F)},
                       {"step", 7},
                       {"name", "text"}};
};

TEST_F(CopyTest, MakesTheSameCheckpoint) {
  save_original();

  const SaveResult result = copy_it();

  for (const std::string& name : list_tree(target())) {
    if (fs::is_regular_file(target() / name)) {
      EXPECT_EQ(read(copy() / name), read(target() / name)) << name;
    }
  }
  EXPECT_EQ(list_tree(copy()), list_tree(target()));
  EXPECT_EQ(load(copy(), {}, *context_), large_);
  EXPECT_TRUE(verify(copy(), {}, *context_).is_sound());
  EXPECT_GT(result.files, 1u);
  EXPECT_GE(result.bytes, 12'000'000u);
  EXPECT_EQ(result.path, copy());
  EXPECT_THAT(entries(), ElementsAre("checkpoint", "copy"));
}

TEST_F(CopyTest, OfSeveralRanksSaysWhoWroteWhat) {
  const auto tree = [](std::uint32_t rank) {
    return Tree{{"w", part_of(counted({64, 4}), rows_of(4), rank)}, {"step", 7}};
  };
  expect_saved(tree);

  copy_it();

  EXPECT_EQ(read(copy() / "checkpoint.json"), read(target() / "checkpoint.json"));
  EXPECT_EQ(list_tree(copy()), list_tree(target()));
  EXPECT_TRUE(verify(copy(), {}, *context_).is_sound());
  EXPECT_EQ(load(copy(), {}, *context_), load_whole());
}

TEST_F(CopyTest, MakesParentsAsASaveDoes) {
  save_original();

  copy_checkpoint(target(), directory_ / "archive" / "copy", {}, *context_);

  EXPECT_TRUE(verify(directory_ / "archive" / "copy", {}, *context_).is_sound());
  EXPECT_THAT([&] { copy_checkpoint(target(), directory_ / "a" / "b" / "copy", {}, *context_); },
              Fails(Errc::not_found));
}

TEST_F(CopyTest, OfADamagedCheckpointIsRefusedAndNothingIsMade) {
  save_original();
  const std::string file = damage(target());

  EXPECT_THAT([&] { copy_it(); }, Fails(Errc::checksum_mismatch, AllOf(HasSubstr((target() / file).string()),
                                                                       HasSubstr("chunk 11 "))));
  EXPECT_THAT(entries(), ElementsAre("checkpoint"));
}

TEST_F(CopyTest, RefusesWhatIsNotThere) {
  EXPECT_THAT([&] { copy_it(); }, Fails(Errc::not_found));
  fs::create_directory(target());
  write_text(target() / "model.safetensors", "x");
  EXPECT_THAT([&] { copy_it(); }, Fails(Errc::not_committed));
  EXPECT_THAT(entries(), ElementsAre("checkpoint"));
}

TEST_F(CopyTest, RefusesAnotherCheckpointUnlessItIsToBeReplaced) {
  save_original();
  save(copy(), tree_, {}, *context_);

  EXPECT_THAT([&] { copy_it(); }, Fails(Errc::already_exists));
  EXPECT_EQ(load(copy(), {}, *context_), tree_);

  CopyOptions options;
  options.overwrite = true;
  copy_it(options);
  EXPECT_EQ(uuid_of(copy()), uuid_of(target()));
  EXPECT_EQ(load(copy(), {}, *context_), large_);
  EXPECT_THAT(entries(), ElementsAre("checkpoint", "copy"));
}

TEST_F(CopyTest, OfWhatIsThereAlreadyDoesNothing) {
  save_original();
  copy_it();
  const fs::file_time_type before = fs::last_write_time(copy() / "COMMIT");

  for (const bool overwrite : {false, true}) {
    CopyOptions options;
    options.overwrite = overwrite;
    const SaveResult result = copy_it(options);
    EXPECT_EQ(result.path, copy());
    EXPECT_EQ(result.files, 0u);
    EXPECT_EQ(result.durable_time, std::chrono::nanoseconds(0));
  }
  EXPECT_EQ(fs::last_write_time(copy() / "COMMIT"), before);
  EXPECT_EQ(copy_checkpoint(target(), target(), {}, *context_).files, 0u);
}

TEST_F(CopyTest, InTheBackgroundTellsItsProgress) {
  save_original();
  Slow slow(small());
  slow.disk->hold(Held::rename);

  const AsyncResponse copying = copy_checkpoint_async(target(), copy(), {}, *slow.context);
  ASSERT_TRUE(slow.disk->holds());
  EXPECT_FALSE(fs::exists(copy()));
  EXPECT_GE(copying.progress().total_bytes, 12'000'000u);
  EXPECT_EQ(copying.progress().written_bytes, copying.progress().total_bytes);
  slow.disk->let_go();

  EXPECT_GT(copying.wait().files, 1u);
  EXPECT_TRUE(verify(copy(), {}, *context_).is_sound());
}

TEST_F(CopyTest, ThatIsCancelledMakesNothing) {
  save_original();
  Slow slow(small());
  slow.disk->hold(Held::write);

  const AsyncResponse copying = copy_checkpoint_async(target(), copy(), {}, *slow.context);
  ASSERT_TRUE(slow.disk->holds());
  copying.cancel();
  slow.disk->let_go();

  EXPECT_THAT([&] { copying.wait(); }, Fails(Errc::cancelled));
  copying.wait_done();
  EXPECT_THAT(entries(), ElementsAre("checkpoint"));
}

TEST_F(CopyTest, ThatTakesTooLongMakesNothing) {
  save_original();
  const auto clock = std::make_shared<ManualClock>();
  ContextOptions options = small();
  options.clock = clock;
  Slow slow(std::move(options));
  slow.disk->hold(Held::write);
  CopyOptions how;
  how.deadline = std::chrono::seconds(5);

  const AsyncResponse copying = copy_checkpoint_async(target(), copy(), how, *slow.context);
  ASSERT_TRUE(slow.disk->holds());
  for (bool is_answered = false; !is_answered; static_cast<void>(async::Event().wait_for(5ms))) {
    clock->advance(how.deadline + slow.context->options().stop_grace);
    try {
      copying.wait(0ns);
    } catch (const Error& error) {
      is_answered = error.code() != Errc::still_running;
    }
  }
  EXPECT_THAT([&] { copying.wait(); }, Fails(Errc::timed_out));
  slow.disk->let_go();
  copying.wait_done();
  EXPECT_THAT(entries(), ElementsAre("checkpoint"));
}

TEST_F(CopyTest, OfWhatIsReplacedMeanwhileMakesNothing) {
  save_original();
  Slow slow(small());
  slow.disk->hold(Held::write);

  const AsyncResponse copying = copy_checkpoint_async(target(), copy(), {}, *slow.context);
  ASSERT_TRUE(slow.disk->holds());
  SaveOptions again;
  again.overwrite = true;
  save(target(), tree_, again, *context_);
  slow.disk->let_go();

  EXPECT_THAT([&] { copying.wait(); }, Fails(Errc::not_found));
  copying.wait_done();
  EXPECT_EQ(load(target(), {}, *context_), tree_);
  EXPECT_THAT(entries(), ElementsAre("checkpoint"));
}

TEST_F(CopyTest, OfWhatIsRemovedMeanwhileMakesNothing) {
  save_original();
  Slow slow(small());
  slow.disk->hold(Held::write);

  const AsyncResponse copying = copy_checkpoint_async(target(), copy(), {}, *slow.context);
  ASSERT_TRUE(slow.disk->holds());
  RemoveOptions how;
  how.even_if_held = true;
  remove_checkpoint(target(), how, *context_);
  slow.disk->let_go();

  EXPECT_THAT([&] { copying.wait(); }, Fails(Errc::not_found));
  copying.wait_done();
  EXPECT_THAT(entries(), IsEmpty());
}

TEST_F(CopyTest, OfTwoToTheSamePathOneIsMade) {
  save_original();
  Slow slow(small());
  slow.disk->hold(Held::write);
  const AsyncResponse first = copy_checkpoint_async(target(), copy(), {}, *slow.context);
  ASSERT_TRUE(slow.disk->holds());

  std::future<SaveResult> second = std::async(std::launch::async, [&] { return copy_it(); });
  slow.disk->let_go();

  EXPECT_GT(first.wait().files, 1u);
  try {
    EXPECT_EQ(second.get().files, 0u);  // It came when the first was there,
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::already_exists);  // or before.
  }
  EXPECT_THAT(entries(), ElementsAre("checkpoint", "copy"));
}

TEST_F(CopyTest, TwoOfOneUuidInADirectoryAreTwoCheckpoints) {
  save_original();
  copy_it();
  ASSERT_EQ(uuid_of(copy()), uuid_of(target()));

  EXPECT_EQ(list_checkpoints(directory_.path(), {}, *context_).size(), 2u);
  const store::RecoveryReport report = recover(directory_.path(), {}, *context_);
  ASSERT_EQ(report.entries.size(), 2u);
  for (const store::RecoveryEntry& entry : report.entries) {
    EXPECT_EQ(entry.kind, store::EntryClass::committed) << entry.name;
    EXPECT_EQ(entry.action, store::RecoveryAction::keep) << entry.name;
  }

  SaveOptions again;
  again.overwrite = true;
  save(copy(), tree_, again, *context_);
  EXPECT_EQ(load(target(), {}, *context_), large_);
  EXPECT_EQ(load(copy(), {}, *context_), tree_);

  CopyOptions options;
  options.overwrite = true;
  copy_it(options);
  remove_checkpoint(target(), {}, *context_);
  EXPECT_EQ(load(copy(), {}, *context_), large_);
  EXPECT_THAT(entries(), ElementsAre("copy"));
}

TEST_F(CopyTest, OneThatAnOverwriteWasCutShortOfIsPutBackBesideItsTwin) {
  save_original();
  copy_it();
  fs::rename(copy(),
             directory_ / ".tmp-copy-00112233-4455-6677-8899-aabbccddeeff");  // The new one never came.

  const store::RecoveryReport report = recover(directory_.path(), {}, *context_);

  EXPECT_THAT(entries(), ElementsAre("checkpoint", "copy"));
  EXPECT_TRUE(verify(copy(), {}, *context_).is_sound());
  EXPECT_EQ(report.entries.size(), 2u);
}

TEST_F(CopyTest, IsRefusedOnAThreadOfTheContexts) {
  save_original();
  CopyOptions options;
  std::string refusal;
  options.trace = [&](std::string_view) {
    try {
      copy_checkpoint(target(), directory_ / "other", {}, *context_);
    } catch (const Error& error) {
      refusal = error.what();
    }
  };

  copy_it(options);

  EXPECT_THAT(refusal, HasSubstr("a copy"));
}

}  // namespace
}  // namespace cairn::testing
