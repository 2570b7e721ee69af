// SPDX-License-Identifier: Apache-2.0
// cairn reshard: the same values in other files.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/array/sharded_array.hpp"
#include "cairn/array/stored_slices.hpp"
#include "cairn/sharding/sharding.hpp"

#include "cli/checkpoints.hpp"
#include "cli/run_cli.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_cli;

class ReshardTest : public ::testing::Test {
 protected:
  static Array numbered(const Shape& shape) {
    Array array(shape, DType::int32);
    std::int32_t next = 0;
    for (std::int32_t& element : array.data<std::int32_t>()) {
      element = next++;
    }
    return array;
  }

  testing::CliResult run(std::vector<std::string> options) const {
    std::vector<std::string> words = {"reshard", source_, target_};
    words.insert(words.end(), options.begin(), options.end());
    return run_cli(words);
  }

  void expect_same_values() const {
    const testing::CliResult difference = run_cli({"diff", source_, target_});
    EXPECT_EQ(difference.status, 0) << difference.out << difference.err;
    const testing::CliResult verified = run_cli({"verify", target_});
    EXPECT_EQ(verified.status, 0) << verified.err;
  }

  std::vector<Box> stored_boxes(const std::string& leaf) const {
    std::vector<Box> boxes;
    const AbstractTree tree = metadata(target_);
    const std::shared_ptr<const StoredSlices> stored = tree.at(leaf).as_array().stored;
    for (std::size_t i = 0; i < stored->size(); ++i) {
      boxes.push_back(stored->box(i));
    }
    return boxes;
  }

  /// What lies in the folder, without what is below.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      found.push_back(entry.path().filename());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  const testing::TempDir folder_;
  const std::string source_ = folder_ / "checkpoint";
  const std::string target_ = folder_ / "cut";
};

TEST_F(ReshardTest, KeepsEveryValueHoweverItCuts) {
  const Sharding columns = Sharding::of_spec(Mesh({3}, {"model"}), {{}, {"model"}});
  const Array whole = numbered({37, 50});
  std::vector<Shard> shards;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const Box box = columns.boxes(rank, whole.shape()).at(0).box;
    shards.push_back({box, whole.part(box).clone()});
  }
  const std::vector<bool> bits = {true, false, true};
  save(source_, Tree{{"w", ShardedArray(whole.shape(), DType::int32, std::move(shards))},
                     {"list", {1, 2.5, "three", numbered({5}), nullptr, true}},
                     {"none", numbered({0, 4})},
                     {"scalar", numbered(Shape{})},
                     {"packed", Array::zeros({64}, DType::float4)},
                     {"odd", {{"__metadata__", numbered({3})}, {"a/b", numbered({6, 2})}}},
                     {"large", std::uint64_t{1} << 63},
                     {"empty", {{"map", Tree::map()}}}});
  const std::vector<std::vector<std::string>> ways = {{"--parts", "1"},
                                                      {"--parts", "4"},
                                                      {"--parts", "50", "--axis", "1"},
                                                      {"--one-file"},
                                                      {"--max-file", "300"},
                                                      {"--tiles", "1KiB"},
                                                      {"--parts", "2", "--tiles", "200"},
                                                      {"--max-file", "1KiB", "--tiles", "64"}};
  for (const std::vector<std::string>& way : ways) {
    SCOPED_TRACE(way.front() + way.back());

    const testing::CliResult result = run(way);

    EXPECT_EQ(result.status, 0) << result.err;
    expect_same_values();
    EXPECT_EQ(load(target_), load(source_));
    fs::remove_all(target_);
  }
}

/// Writes a file far below the directory of its checkpointable.
class DeepHandler final : public CheckpointableHandler<testing::Strange> {
 public:
  std::string_view id() const noexcept override { return "example.deep/1"; }

  // outlives: read before the first suspension.
  Awaitable<Background<>> save(SaveContext context, const testing::Strange& value) const override {
    co_return context.write_file("far/below/value.txt", std::to_string(value.value));
  }
  Awaitable<Background<testing::Strange>> load(LoadContext, std::optional<testing::Strange>) const override {
    co_return nothing();
  }
  Awaitable<testing::Strange> metadata(LoadContext) const override { co_return testing::Strange(); }

 private:
  static Background<testing::Strange> nothing() { co_return testing::Strange(); }
};

TEST_F(ReshardTest, CarriesOverFilesThatLieDeepInACheckpointable) {
  SaveOptions options;
  options.registry.add<DeepHandler>();
  save_checkpointables(source_, {{"state", Tree{{"w", numbered({8, 2})}}}, {"deep", testing::Strange()}},
                       options);

  const testing::CliResult result = run({"--parts", "2"});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(testing::read_text(fs::path(target_) / "deep/far/below/value.txt"), "7");
  EXPECT_EQ(run_cli({"verify", target_}).status, 0);
}

TEST_F(ReshardTest, KeepsTheNamesOfArrays) {
  const Array array = numbered({10, 3});
  const Array other = numbered({4});
  save(source_, Tree{{"embed", array}, {"head", array}, {"list", Tree::list({other, other})}});

  ASSERT_EQ(run({"--parts", "4"}).status, 0);

  expect_same_values();
  EXPECT_EQ(stored_boxes("head").size(), 4u);
  const testing::CliResult listed = run_cli({"ls", "--all", target_});
  EXPECT_THAT(listed.out, HasSubstr("is embed"));
  EXPECT_THAT(listed.out, HasSubstr("is list/0"));
  const auto inspected = nlohmann::json::parse(run_cli({"inspect", target_, "--json"}).out);
  EXPECT_EQ(inspected["checkpointables"]["state"]["arrays"][1]["alias_of"], "embed");
}

TEST_F(ReshardTest, IsTheSameAsWhatWasSavedTwice) {
  const Array array = numbered({10, 3});
  save(source_, Tree{{"embed", array}, {"head", array}});
  save(target_, Tree{{"embed", array}, {"head", array.clone()}});

  expect_same_values();
}

TEST_F(ReshardTest, CutsAsRanksDoThatDivideEqually) {
  save(source_, Tree{{"w", numbered({10, 3})}, {"b", numbered({3})}, {"s", numbered(Shape{})}});

  ASSERT_EQ(run({"--parts", "4"}).status, 0);

  EXPECT_THAT(stored_boxes("w"), ElementsAre(Box({0, 0}, {3, 3}), Box({3, 0}, {3, 3}), Box({6, 0}, {3, 3}),
                                             Box({9, 0}, {1, 3})));
  EXPECT_THAT(stored_boxes("b"), ElementsAre(Box({0}, {1}), Box({1}, {1}), Box({2}, {1})));
}

TEST_F(ReshardTest, MakesFilesOfASizeThatOthersReadWhole) {
  const Tree tree = {{"w", numbered({7, 11, 13})}, {"b", numbered({90})}};
  save(source_, tree);

  ASSERT_EQ(run({"--max-file", "1000"}).status, 0);

  expect_same_values();
  fs::create_directory(folder_ / "alone");
  for (const auto& file : fs::directory_iterator(fs::path(target_) / "state")) {
    if (file.path().extension() == ".safetensors") {
      EXPECT_LE(fs::file_size(file.path()), 4096u + 1000u);
      fs::copy(file.path(), folder_ / "alone");
    }
  }
  EXPECT_EQ(load(folder_ / "alone"), tree);
}

TEST_F(ReshardTest, PutsShardsTogether) {
  const Array whole = numbered({8, 4});
  std::vector<Shard> shards;
  for (std::uint64_t row = 0; row < 8; row += 2) {
    shards.push_back({Box({row, 0}, {2, 4}), whole.part(Box({row, 0}, {2, 4})).clone()});
  }
  save(source_, Tree{{"w", ShardedArray({8, 4}, DType::int32, std::move(shards))}});

  ASSERT_EQ(run({"--one-file"}).status, 0);

  EXPECT_THAT(stored_boxes("w"), ElementsAre(Box::whole({8, 4})));
}

TEST_F(ReshardTest, ReadsLargeArraysPieceByPiece) {
  save(source_,
       Tree{{"before", numbered({11})}, {"large", numbered({5, 1031, 4099})}, {"w", numbered({13})}});

  ASSERT_EQ(run({"--parts", "2", "--axis", "1"}).status, 0);  // Parts of 40 MiB each, beside others.
  expect_same_values();
  fs::remove_all(target_);
  ASSERT_EQ(run({"--one-file"}).status, 0);
  expect_same_values();
}

TEST_F(ReshardTest, CarriesEverythingElseOver) {
  testing::save_example(source_);

  ASSERT_EQ(run({"--parts", "2"}).status, 0);

  expect_same_values();
  const CheckpointMetadata metadata = checkpointables_metadata(target_);
  EXPECT_EQ(nlohmann::json::parse(metadata.custom_metadata), nlohmann::json::parse(R"({"run": "first"})"));
  EXPECT_NE(metadata.uuid, checkpointables_metadata(source_).uuid);
  EXPECT_EQ(testing::read_text(fs::path(target_) / "strange" / "value.txt"), "7");
  EXPECT_THAT(names(), ElementsAre("checkpoint", "cut"));
}

TEST_F(ReshardTest, CutsTheCheckpointableThatIsNamed) {
  save_checkpointables(source_,
                       {{"model", Tree{{"w", numbered({4})}}}, {"other", Tree{{"v", numbered({4})}}}});

  ASSERT_EQ(run({"--parts", "2", "--name", "other"}).status, 0);

  const auto answer = nlohmann::json::parse(run_cli({"inspect", target_, "--json"}).out);
  expect_same_values();
  EXPECT_THAT(testing::list_tree(fs::path(target_) / "model"), Not(Contains(HasSubstr("001.safetensors"))));
  EXPECT_THAT(testing::list_tree(fs::path(target_) / "other"), Contains(HasSubstr("001.safetensors")));
}

TEST_F(ReshardTest, AnswersInJson) {
  save(source_, Tree{{"w", numbered({1024})}});

  const auto answer = nlohmann::json::parse(run({"--parts", "2", "--json"}).out);

  EXPECT_EQ(answer["path"], target_);
  EXPECT_THAT(answer["policy"].get<std::string>(), HasSubstr("2 equal parts along axis 0"));
  EXPECT_EQ(answer["checkpointables"][0]["name"], "state");
  EXPECT_EQ(answer["checkpointables"][0]["files"].size(), 2u);
  EXPECT_EQ(answer["checkpointables"][0]["files"][1]["parts"], 1);
}

TEST_F(ReshardTest, RefusesWhatItCannotDo) {
  save_checkpointables(source_, {{"state", Tree{{"w", numbered({4})}}}, {"note", Tree{{"step", 1}}}});
  struct Case {
    std::vector<std::string> options;
    std::string complaint;
    int status = 1;
  };
  const std::vector<Case> cases = {
      {{}, "choose one of --parts, --max-file, --one-file, --tiles", 2},
      {{"--axis", "1"}, "choose one of --parts", 2},
      {{"--axis", "1", "--one-file"}, "--axis goes with --parts", 2},
      {{"--parts", "2", "--one-file"}, "exclude each other", 2},
      {{"--parts", "2", "--max-file", "1MiB"}, "exclude each other", 2},
      {{"--parts", "2", "--axis", "1"}, "no array can be cut along axis 1"},
      {{"--parts", "2", "--name", "note"}, "'note' has no arrays"},
      {{"--parts", "2", "--name", "nobody"}, "has no checkpointable 'nobody'; it has: state, note"},
  };
  for (const Case& one : cases) {
    const testing::CliResult result = run(one.options);
    EXPECT_EQ(result.status, one.status) << one.complaint;
    EXPECT_THAT(result.err, HasSubstr(one.complaint));
    EXPECT_THAT(names(), ElementsAre("checkpoint"));
  }
  EXPECT_THAT(run({"--parts", "0"}).err, HasSubstr("--parts"));
  EXPECT_THAT(run_cli({"reshard", source_, source_, "--one-file"}).err, HasSubstr("already exists"));
  EXPECT_THAT(run_cli({"reshard", source_, source_ + "/x", "--one-file"}).err,
              HasSubstr("holds only its own files"));
  EXPECT_THAT(run_cli({"reshard", target_, source_ + "2", "--one-file"}).err, HasSubstr("not found"));
}

TEST_F(ReshardTest, LeavesNothingOfADamagedSource) {
  save(source_, Tree{{"w", numbered({1000})}});
  for (const auto& entry : fs::recursive_directory_iterator(source_)) {
    if (entry.path().extension() == ".safetensors") {
      std::string text = testing::read_text(entry.path());
      text.back() = static_cast<char>(text.back() ^ 1);
      testing::write_text(entry.path(), text);
    }
  }

  const testing::CliResult result = run({"--parts", "2"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("safetensors"));
  EXPECT_THAT(names(), ElementsAre("checkpoint"));
}

}  // namespace
}  // namespace cairn
