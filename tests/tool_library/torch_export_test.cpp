// SPDX-License-Identifier: Apache-2.0
#include "cairn/tools/torch_export.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/cairn.hpp"

#include "support/fails.hpp"
#include "support/halves_layout.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"
#include "tool_library/numbered.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::numbered;

class TorchExport : public ::testing::Test {
 protected:
  /// Expects that both forms refuse to write, and leave nothing.
  template <class Text>
  void expect_refusal(const ExportOptions& options, Errc code, Text why) {
    const std::vector<std::string> before = testing::list_tree(folder_.path());
    EXPECT_THAT([&] { write_torch_archive(source_, folder_ / "out.pt", options); }, Fails(code, why));
    EXPECT_THAT([&] { write_torch_distributed(source_, folder_ / "out", options); }, Fails(code, why));
    EXPECT_EQ(testing::list_tree(folder_.path()), before);
  }

  const testing::TempDir folder_;
  const fs::path source_ = folder_ / "x";
};

/// A layout whose array has elements in no file.
class HalvesWithAGap final : public testing::Halves {
 public:
  [[nodiscard]] formats::ForeignCatalogue catalogue() const override {
    formats::ForeignCatalogue catalogue = Halves::catalogue();
    catalogue.arrays[0].slices.pop_back();
    return catalogue;
  }
};

TEST_F(TorchExport, ArchiveHasTheWholeTree) {
  const Tree tree{{"model", {{"w", numbered({3, 5})}, {"none", numbered({0, 4})}}},
                  {"list", Tree::list({1, "two", numbered({2}), Tree::list({Tree()})})},
                  {"numbers", Tree::list({-1, 2.5, true, std::uint64_t{UINT64_MAX}})},
                  {"a/b", Bytes{std::byte{0}, std::byte{255}}},
                  {"empty", {{"map", Tree::map()}, {"list", Tree::list()}}}};
  save(source_, tree);

  const ExportPlan plan = write_torch_archive(source_, folder_ / "out.pt");

  EXPECT_EQ(load(folder_ / "out.pt"), tree);
  ASSERT_EQ(plan.files.size(), 1u);
  EXPECT_EQ(plan.files[0].bytes, fs::file_size(folder_ / "out.pt"));
  EXPECT_TRUE(plan.left_out.empty());
}

TEST_F(TorchExport, ArchiveHasArraysOfEveryDTypeOfTorch) {
  const fs::path stored = testing::test_data() / "torch_more/dtypes.pt";

  write_torch_archive(stored, folder_ / "out.pt");

  EXPECT_EQ(load(folder_ / "out.pt"), load(stored));
}

TEST_F(TorchExport, ArchiveHasTheElementsOfTiedArraysOnce) {
  const Array tied = numbered({1000, 100});
  save(source_, Tree{{"embed", tied}, {"head", tied}});

  write_torch_archive(source_, folder_ / "out.pt");

  EXPECT_EQ(load(folder_ / "out.pt"), (Tree{{"embed", tied}, {"head", tied}}));
  EXPECT_LT(fs::file_size(folder_ / "out.pt"), 500'000u);
}

TEST_F(TorchExport, PutsTogetherWhatWasSavedInParts) {
  const Array whole = numbered({7, 10});
  std::vector<Shard> shards;
  for (std::uint64_t column = 0; column < 10; column += 5) {
    shards.push_back({Box({0, column}, {7, 5}), whole.part(Box({0, column}, {7, 5})).clone()});
  }
  save(source_, Tree{{"w", ShardedArray({7, 10}, DType::int32, std::move(shards))}});

  write_torch_archive(source_, folder_ / "out.pt");
  write_torch_distributed(source_, folder_ / "out");

  EXPECT_EQ(load(folder_ / "out.pt").at("w"), Tree(whole));
  EXPECT_EQ(load(folder_ / "out").at("w"), Tree(whole));
}

TEST_F(TorchExport, CopiesArraysThatAreLargerThanABatch) {
  const Array large = numbered({5, 1031, 4099});  // 81 MiB.
  save(source_, Tree{{"large", large}, {"later", numbered({13})}});

  write_torch_archive(source_, folder_ / "out.pt");

  EXPECT_TRUE(load(folder_ / "out.pt") == (Tree{{"large", large}, {"later", numbered({13})}}));
}

TEST_F(TorchExport, DistributedCheckpointHasTensorsAndObjects) {
  save(source_, Tree{{"model", {{"w", numbered({3, 5})}, {"scalar", numbered({})}}},
                     {"steps", Tree::list({1, 2})},
                     {"states", Tree::list({numbered({2}), "text"})},
                     {"step", 7},
                     {"nothing", Tree::map()}});

  const ExportPlan plan = write_torch_distributed(source_, folder_ / "out");

  EXPECT_EQ(load(folder_ / "out"), (Tree{{"model.w", numbered({3, 5})},
                                         {"model.scalar", numbered({})},
                                         {"steps", Tree::list({1, 2})},
                                         {"states.0", numbered({2})},
                                         {"states.1", "text"},
                                         {"step", 7}}));
  EXPECT_THAT(testing::list_tree(folder_ / "out"), ElementsAre(".metadata", "__0_0.distcp"));
  EXPECT_THAT(plan.left_out, ElementsAre("nothing (an empty map)"));
}

TEST_F(TorchExport, DistributedCheckpointHasFilesOfBoundedSize) {
  const Tree tree{{"a", numbered({5000})}, {"b", numbered({5000})}, {"c", numbered({5000})}};
  save(source_, tree);
  ExportOptions options;
  options.max_file_bytes = 30'000;

  const ExportPlan plan = write_torch_distributed(source_, folder_ / "out", options);

  ASSERT_EQ(plan.files.size(), 3u);
  EXPECT_EQ(plan.files[2].name, "__0_2.distcp");
  EXPECT_EQ(plan.files[2].first_array, 2u);
  EXPECT_EQ(plan.files[2].bytes, fs::file_size(folder_ / "out/__0_2.distcp"));
  EXPECT_EQ(load(folder_ / "out"), tree);
}

TEST_F(TorchExport, HoldsWhatIsChosenUnderOtherNamesAndCast) {
  save(source_, Tree{{"model", {{"w", std::vector<float>{1.5F, 2}}, {"n", numbered({3})}}},
                     {"optimizer", numbered({2})},
                     {"step", 7}});
  ExportOptions options;
  options.only = {"model/**", "step"};
  options.rename = {{"model/**", "net/**"}, {"step", "at"}};
  options.dtype = DType::bfloat16;

  write_torch_archive(source_, folder_ / "out.pt", options);

  const Tree loaded = load(folder_ / "out.pt");
  ASSERT_TRUE(loaded.contains("net/w"));
  EXPECT_EQ(loaded.at("net/w").array_if()->dtype(), DType::bfloat16);
  EXPECT_EQ(loaded.at("net/w").array_if()->data<const BFloat16>()[0].bits, 0x3fc0);
  EXPECT_EQ(loaded.at("net/n"), Tree(numbered({3})));
  EXPECT_EQ(loaded.at("at"), Tree(7));
  EXPECT_FALSE(loaded.contains("optimizer"));
}

TEST_F(TorchExport, RefusesPatternsThatMatchNothing) {
  save(source_, Tree{{"model", {{"w", numbered({3})}}}});
  ExportOptions options;
  options.only = {"modle/**"};

  expect_refusal(options, Errc::invalid_argument, HasSubstr("the nearest: 'model/w'"));
}

TEST_F(TorchExport, NamesArraysThatTorchCannotHaveUntilTheyAreCast) {
  save(source_, Tree{{"model", {{"six", Array(Shape{4}, DType::float6_e2m3)}}}});

  expect_refusal({}, Errc::invalid_argument, HasSubstr("'model/six': torch has no dtype"));
  ExportOptions cast;
  cast.dtype = DType::bfloat16;
  write_torch_archive(source_, folder_ / "out.pt", cast);
  const Tree loaded = load(folder_ / "out.pt");
  EXPECT_EQ(loaded.at("model/six").array_if()->dtype(), DType::bfloat16);
}

TEST_F(TorchExport, RefusesNamesThatTorchWouldJoinToOne) {
  save(source_, Tree{{"a.b", numbered({2})}, {"a", {{"b", numbered({2})}}}});

  EXPECT_THAT([&] { write_torch_distributed(source_, folder_ / "out"); },
              Fails(Errc::invalid_argument, HasSubstr("would both be called 'a.b'")));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(TorchExport, RefusesRenamesThatMakeALeafAMap) {
  save(source_, Tree{{"a", 1}, {"b", 2}});
  ExportOptions options;
  options.rename = {{"a", "b/c"}};
  options.checkpointable = "state";

  expect_refusal(options, Errc::invalid_argument, HasSubstr("'b'"));
}

TEST_F(TorchExport, LeavesNothingOfADamagedCheckpoint) {
  save(source_, Tree{{"a", numbered({4})}});
  testing::damage_data(source_);

  expect_refusal({}, Errc::checksum_mismatch, HasSubstr("safetensors"));
}

TEST_F(TorchExport, NamesAnArrayThatHasGaps) {
  testing::write_halves(folder_ / "files");
  const array_store::FileLayouts layouts = {std::make_shared<HalvesWithAGap>()};
  LoadOptions described;
  described.registry.add<TreeHandler>(std::make_shared<const TreeHandler>(layouts));
  ExportOptions options;
  options.layouts = layouts;

  EXPECT_THAT(
      [&] {
        write_torch_archive(checkpointables_metadata(folder_ / "files", described), folder_ / "out.pt",
                            options);
      },
      Fails(Errc::incomplete_shards, HasSubstr("w")));
  EXPECT_FALSE(fs::exists(folder_ / "out.pt"));
}

TEST_F(TorchExport, ReplacesNothing) {
  save(source_, Tree{{"a", numbered({2})}});
  testing::write_text(folder_ / "out.pt", "mine");

  EXPECT_THAT([&] { write_torch_archive(source_, folder_ / "out.pt"); },
              Fails(Errc::already_exists, HasSubstr("out.pt")));
  EXPECT_EQ(testing::read_text(folder_ / "out.pt"), "mine");
}

TEST_F(TorchExport, NamesObjectsWithoutAPlace) {
  const fs::path stored = testing::test_data() / "torch_more/odd.pt";

  EXPECT_THAT([&] { write_torch_archive(stored, folder_ / "out.pt"); },
              Fails(Errc::structure_mismatch, HasSubstr("'sparse' (a sparse tensor)")));
  EXPECT_FALSE(fs::exists(folder_ / "out.pt"));
  ExportOptions options;
  options.leave_out = true;

  const ExportPlan plan = write_torch_archive(stored, folder_ / "out.pt", options);

  EXPECT_THAT(plan.notes, Contains(HasSubstr("'sparse': a sparse tensor")));
  EXPECT_TRUE(load(folder_ / "out.pt").contains("fine"));
}

TEST_F(TorchExport, HoldsTheObjectsOfADistributedCheckpointAsTrees) {
  const Tree tree{{"w", numbered({3})}, {"states", Tree::list({1, "two"})}};
  save(source_, tree);
  write_torch_distributed(source_, folder_ / "stored");

  const ExportPlan plan = write_torch_archive(folder_ / "stored", folder_ / "out.pt");
  write_torch_distributed(folder_ / "stored", folder_ / "out");

  EXPECT_TRUE(plan.left_out.empty());
  EXPECT_EQ(load(folder_ / "out.pt"), tree);
  EXPECT_EQ(load(folder_ / "out"), tree);
}

TEST_F(TorchExport, NamesObjectsOfADistributedCheckpointWithoutAPlace) {
  const fs::path stored = testing::test_data() / "torch_more/odd_objects";

  EXPECT_THAT([&] { write_torch_archive(stored, folder_ / "out.pt"); },
              Fails(Errc::structure_mismatch, HasSubstr("'huge' (an integer of more than 64 bits)")));
  ExportOptions options;
  options.leave_out = true;

  const ExportPlan plan = write_torch_archive(stored, folder_ / "out.pt", options);

  EXPECT_THAT(plan.notes, Contains(HasSubstr("'huge': an integer of more than 64 bits")));
  EXPECT_FALSE(load(folder_ / "out.pt").contains("huge"));
}

}  // namespace
}  // namespace cairn
