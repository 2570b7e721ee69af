// SPDX-License-Identifier: Apache-2.0
#include "support/memory_store.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/api/maintain.hpp"
#include "cairn/handlers/json.hpp"
#include "cairn/testing/local_ranks.hpp"

#include "api/fixture.hpp"

namespace cairn::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::StartsWith;

ContextOptions in_memory(std::shared_ptr<const MemoryStore> memory) {
  ContextOptions options;
  options.engine = io::EngineKind::threads;
  options.worker_threads = 2;
  options.staging_bytes = std::size_t{64} << 20;
  options.checkpoint_store = std::move(memory);
  return options;
}

/// Saves and loads where nothing lies in a directory.
class InMemory : public ApiTest {
 protected:
  InMemory() : InMemory(std::make_shared<const MemoryStore>()) {}
  explicit InMemory(std::shared_ptr<const MemoryStore> memory)
      : ApiTest(in_memory(memory)), memory_(std::move(memory)) {}

  const std::shared_ptr<const MemoryStore> memory_;
  const Tree model_ = {{"w", std::vector<float>(3'000'000, 1.5F)}, {"step", 7}, {"name", "text"}};
};

TEST_F(InMemory, TreesAndDocumentsAreLoadedAsTheyWereSaved) {
  const nlohmann::json document = {{"rate", 0.5}};
  save_items({{"model", model_}, {"document", document}});

  Loaded loaded = load_items();
  EXPECT_EQ(loaded.take<Tree>("model"), model_);
  EXPECT_EQ(loaded.take<nlohmann::json>("document"), document);
  EXPECT_EQ(checkpointables_metadata(target(), *context_).at("document").as<AbstractJson>().kind,
            JsonKind::object);
  EXPECT_THAT(left(), IsEmpty());
  EXPECT_EQ(memory_->begun(), 0u);
}

TEST_F(InMemory, BorrowedValuesAndMappedArraysAre) {
  SaveOptions save_options;
  save_options.snapshot = Snapshot::borrow;
  save_items({{"model", model_}}, save_options);
  TreeLoadOptions of_tree;
  of_tree.map = true;
  LoadOptions options;
  options.handler_options.set(of_tree);

  Loaded loaded = load_checkpointables(target(), {}, options, *context_);

  EXPECT_EQ(loaded.take<Tree>("model"), model_);
}

TEST_F(InMemory, ASaveRefusesWhatIsThere) {
  save_items({{"model", tree_}});

  EXPECT_THAT([&] { save_items({{"model", model_}}); }, Fails(Errc::already_exists));
  SaveOptions options;
  options.overwrite = true;
  save_items({{"model", model_}}, options);
  EXPECT_EQ(load_items().take<Tree>("model"), model_);
}

TEST_F(InMemory, ACheckpointIsVerified) {
  save_items({{"model", model_}});
  const store::VerifyReport sound = verify(target(), {}, *context_);
  EXPECT_TRUE(sound.is_sound());
  EXPECT_GE(sound.bytes, 12'000'000u);

  memory_->alter(target());

  const store::VerifyReport report = verify(target(), {}, *context_);
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_EQ(report.problems[0].damage, store::Damage::altered);
  EXPECT_THAT(report.problems[0].file, StartsWith("model/"));
  EXPECT_THAT([&] { static_cast<void>(load_items()); }, Fails(Errc::checksum_mismatch));
  EXPECT_THAT([&] { static_cast<void>(verify(directory_ / "missing", {}, *context_)); },
              Fails(Errc::not_found));
}

TEST_F(InMemory, ACheckpointIsCopiedToWhereItLiesInMemoryAndBack) {
  save_items({{"model", model_}});
  const std::filesystem::path copy = directory_ / "copy";

  copy_checkpoint(target(), copy, {}, *context_);

  EXPECT_EQ(load_checkpointables(copy, {}, LoadOptions(), *context_).take<Tree>("model"), model_);
  EXPECT_TRUE(verify(copy, {}, *context_).is_sound());
  memory_->alter(target());
  EXPECT_THAT([&] { copy_checkpoint(target(), directory_ / "other", {}, *context_); },
              Fails(Errc::checksum_mismatch));
  EXPECT_EQ(memory_->begun(), 0u);
}

TEST_F(InMemory, RanksSaveOneCheckpoint) {
  const std::string failures = failures_on_ranks(2, [&](std::shared_ptr<coord::Coordinator> coordinator) {
    ContextOptions options = in_memory(memory_);
    options.coordinator = std::move(coordinator);
    const Context context(std::move(options));
    save_checkpointables(target(), {{"model", model_}}, SaveOptions(), context);
  });

  EXPECT_EQ(failures, "");
  EXPECT_EQ(load_items().take<Tree>("model"), model_);
  EXPECT_EQ(memory_->begun(), 0u);
}

}  // namespace
}  // namespace cairn::testing
