// SPDX-License-Identifier: Apache-2.0
// cairn export: what other programs read.

#include <algorithm>
#include <complex>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/array/sharded_array.hpp"

#include "cli/checkpoints.hpp"
#include "cli/run_cli.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::run_cli;

/// Elements that are their numbers.
Array counted(const Shape& shape) {
  Array array(shape, DType::int32);
  std::int32_t next = 0;
  for (std::int32_t& element : array.data<std::int32_t>()) {
    element = next++;
  }
  return array;
}

class ExportTest : public ::testing::Test {
 protected:
  /// Exports `source`; the options come behind the target.
  testing::CliResult run(const std::string& target, std::vector<std::string> options = {}) {
    std::vector<std::string> words = {"export", source_, folder_ / target};
    words.insert(words.end(), options.begin(), options.end());
    return run_cli(words);
  }

  /// What lies beside the checkpoint.
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
};

TEST_F(ExportTest, MakesAFileThatHoldsEveryArray) {
  save(
      source_,
      Tree{{"a", {{"b", counted({3, 5})}, {"none", counted({0, 4})}}}, {"scalar", counted({})}, {"step", 7}});

  const testing::CliResult result = run("out.safetensors");

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("left out, not arrays: step"));
  EXPECT_EQ(load(folder_ / "out.safetensors"),
            (Tree{{"a/b", counted({3, 5})}, {"a/none", counted({0, 4})}, {"scalar", counted({})}}));
  EXPECT_THAT(names(), ElementsAre("checkpoint", "out.safetensors"));
}

TEST_F(ExportTest, MakesPairsOfComplexNumbers) {
  save(source_, Tree{{"z", std::vector<std::complex<double>>{{1, -2}, {3, 0.1}}}});

  ASSERT_EQ(run("out.safetensors").status, 0);

  const Tree seen = load(folder_ / "out.safetensors");
  EXPECT_EQ(seen.at("z"), Tree(Array::adopt(std::vector<double>{1, -2, 3, 0.1}).reshaped({2, 2})));
}

TEST_F(ExportTest, PutsTogetherWhatWasSavedInParts) {
  const Array whole = counted({7, 10});
  std::vector<Shard> shards;
  for (std::uint64_t column = 0; column < 10; column += 5) {
    shards.push_back({Box({0, column}, {7, 5}), whole.part(Box({0, column}, {7, 5})).clone()});
  }
  save(source_, Tree{{"w", ShardedArray({7, 10}, DType::int32, std::move(shards))}});

  ASSERT_EQ(run("out.safetensors").status, 0);

  EXPECT_EQ(load(folder_ / "out.safetensors").at("w"), Tree(whole));
}

TEST_F(ExportTest, CopiesArraysThatAreLargerThanABatchInPieces) {
  const Array large = counted({5, 1031, 4099});  // 81 MiB.
  save(source_, Tree{{"before", counted({11})}, {"large", large}, {"later", counted({13})}});

  ASSERT_EQ(run("out.safetensors").status, 0);

  const Tree loaded = load(folder_ / "out.safetensors");
  EXPECT_TRUE(loaded.at("large") == Tree(large));
  EXPECT_EQ(loaded.at("later"), Tree(counted({13})));
}

TEST_F(ExportTest, MakesAFolderWithAnIndex) {
  save(source_, Tree{{"a", counted({100})}, {"b", {{"c", counted({200})}}}, {"d", counted({50})}});

  const testing::CliResult result = run("out", {"--separator", ".", "--max-file", "900"});

  EXPECT_EQ(result.status, 0) << result.err;
  const auto index = nlohmann::json::parse(testing::read_text(folder_ / "out/model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 1400);
  EXPECT_EQ(index["weight_map"]["a"], "model-00001-of-00003.safetensors");
  EXPECT_EQ(index["weight_map"]["b.c"], "model-00002-of-00003.safetensors");
  const Tree loaded = load(folder_ / "out");
  EXPECT_EQ(loaded.at("b.c"), Tree(counted({200})));
  EXPECT_EQ(loaded.at("d"), Tree(counted({50})));
  EXPECT_THAT(names(), ElementsAre("checkpoint", "out"));
}

TEST_F(ExportTest, NeedsNoIndexForOneFile) {
  save(source_, Tree{{"a", counted({100})}});

  ASSERT_EQ(run("out").status, 0);

  EXPECT_THAT(testing::list_tree(folder_ / "out"), ElementsAre("model.safetensors"));
}

TEST_F(ExportTest, AnswersInJson) {
  save(source_, Tree{{"a", counted({4})}, {"step", 7}});

  const auto answer = nlohmann::json::parse(run("out.safetensors", {"--json"}).out);

  EXPECT_EQ(answer["checkpointable"], "state");
  EXPECT_EQ(answer["files"][0]["name"], "out.safetensors");
  EXPECT_EQ(answer["files"][0]["arrays"], 1);
  EXPECT_EQ(answer["left_out"][0], "step");
}

TEST_F(ExportTest, WritesAnArrayUnderEachOfItsNamesUnlessToldOtherwise) {
  const Array embed = counted({7, 3});
  save(source_, Tree{{"embed", embed}, {"head", embed}});

  EXPECT_EQ(run("both.safetensors").status, 0);
  const testing::CliResult first = run("first.safetensors", {"--first-names"});
  EXPECT_EQ(first.status, 0) << first.err;

  EXPECT_EQ(load(folder_ / "both.safetensors"), (Tree{{"embed", embed}, {"head", embed}}));
  EXPECT_EQ(load(folder_ / "first.safetensors"), (Tree{{"embed", embed}}));
  EXPECT_THAT(first.out, HasSubstr("left out, further names of arrays: head"));
  const auto answer = nlohmann::json::parse(run("again.safetensors", {"--first-names", "--json"}).out);
  EXPECT_EQ(answer["aliases_left_out"], nlohmann::json({"head"}));
}

TEST_F(ExportTest, CallsArraysAsItIsTold) {
  save(source_, Tree{{"model", {{"w", counted({2})}}}, {"module.b.w", counted({3})}, {"step", counted({})}});

  const testing::CliResult result =
      run("out.safetensors",
          {"--rename", "model/**=net/**", "--rename", "s*p=at_*", "--strip", "module", "--separator", "."});

  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(load(folder_ / "out.safetensors"),
            (Tree{{"net.w", counted({2})}, {"b.w", counted({3})}, {"at_te", counted({})}}));
}

TEST_F(ExportTest, WritesFilesOfTorch) {
  const Tree tree{{"model", {{"w", counted({3, 5})}}}, {"step", 7}};
  save(source_, tree);

  const testing::CliResult file = run("out.pt");
  const testing::CliResult folder = run("out", {"--format", "dcp"});

  EXPECT_EQ(file.status, 0) << file.err;
  EXPECT_EQ(folder.status, 0) << folder.err;
  EXPECT_EQ(load(folder_ / "out.pt"), tree);
  EXPECT_EQ(load(folder_ / "out"), (Tree{{"model.w", counted({3, 5})}, {"step", 7}}));
  EXPECT_THAT(names(), ElementsAre("checkpoint", "out", "out.pt"));
}

TEST_F(ExportTest, TakesWhatIsChosenAndCastsIt) {
  save(source_, Tree{{"model", {{"w", std::vector<float>{1.5F, 2}}}}, {"other", counted({2})}, {"step", 7}});

  const testing::CliResult result =
      run("out.safetensors", {"--only", "model/**", "--dtype", "bfloat16", "--separator", "."});

  ASSERT_EQ(result.status, 0) << result.err;
  const Tree loaded = load(folder_ / "out.safetensors");
  EXPECT_EQ(loaded.size(), 1u);
  EXPECT_EQ(loaded.at("model.w").array_if()->dtype(), DType::bfloat16);
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("step")));
}

TEST_F(ExportTest, TakesTheDtypesThatTheToolPrints) {
  save(source_, Tree{{"w", std::vector<float>{1.5F, 2}}});

  ASSERT_EQ(run("out.safetensors", {"--dtype", "float8_e4m3"}).status, 0);  // Of torch: float8_e4m3fn.

  const Tree loaded = load(folder_ / "out.safetensors");
  EXPECT_EQ(loaded.at("w").array_if()->dtype(), DType::float8_e4m3);
}

TEST_F(ExportTest, RefusesWhatCannotBeChosen) {
  save(source_, Tree{{"w", counted({2})}, {"step", 7}});

  EXPECT_THAT(run("out.safetensors", {"--only", "step"}).err,
              HasSubstr("'step' cannot be exported so: it is not an array"));
  EXPECT_THAT(run("out.safetensors", {"--only", "v"}).err, HasSubstr("matches no path that is stored"));
  EXPECT_EQ(run("out.safetensors", {"--dtype", "float33"}).status, 2);
  EXPECT_THAT(run("out", {"--format", "torch_dist"}).err,
              HasSubstr("it is not a state dict of Megatron-Core"));
  EXPECT_EQ(run("out.pt", {"--separator", "."}).status, 2);
  EXPECT_THAT(names(), ElementsAre("checkpoint"));
}

TEST_F(ExportTest, RefusesRenamesThatAreWrong) {
  save(source_, Tree{{"module.w", counted({2})}, {"w", counted({3})}});

  const auto refusal = [this](const std::vector<std::string>& options, int status) {
    const testing::CliResult result = run("out.safetensors", options);
    EXPECT_EQ(result.status, status);
    return result.err;
  };

  EXPECT_THAT(refusal({"--strip", "modle"}, 1),
              HasSubstr("the rename 'modle.**=**' matches no path that is stored; the nearest: 'module.w'"));
  EXPECT_THAT(refusal({"--strip", "module"}, 1), HasSubstr("'module.w' and 'w' would both become 'w'"));
  EXPECT_THAT(refusal({"--rename", "w"}, 2),
              HasSubstr("'w' is not a pattern, a '=' and what becomes of its paths"));
  EXPECT_THAT(refusal({"--rename", "a**=b"}, 1),
              HasSubstr("the pattern 'a**' of a rename has '**' in a key"));
  EXPECT_THAT(names(), ElementsAre("checkpoint"));
}

TEST_F(ExportTest, TakesTheCheckpointableThatIsNamed) {
  save_checkpointables(source_, {{"model", Tree{{"w", counted({2})}}}, {"other", Tree{{"v", counted({3})}}}});

  const testing::CliResult unnamed = run("out.safetensors");
  EXPECT_EQ(unnamed.status, 1);
  EXPECT_THAT(unnamed.err, HasSubstr("'model', 'other' have arrays; choose one with --name"));
  EXPECT_EQ(run("out.safetensors", {"--name", "other"}).status, 0);
  EXPECT_EQ(load(folder_ / "out.safetensors"), (Tree{{"v", counted({3})}}));
  EXPECT_THAT(run("again.safetensors", {"--name", "nobody"}).err,
              HasSubstr("has no checkpointable 'nobody'; it has: model, other"));
}

TEST_F(ExportTest, CallsAnArrayThatIsAllThereIsLikeItsCheckpointable) {
  save_checkpointables(source_, {{"weights", counted({6})}});

  ASSERT_EQ(run("out.safetensors").status, 0);

  EXPECT_EQ(load(folder_ / "out.safetensors").at("weights"), Tree(counted({6})));
}

TEST_F(ExportTest, RefusesNamesThatMeanTwoArrays) {
  save(source_, Tree{{"a.b", counted({2})}, {"a", {{"b", counted({2})}}}});

  const testing::CliResult result = run("out.safetensors", {"--separator", "."});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("would both be called 'a.b'"));
  EXPECT_THAT(names(), ElementsAre("checkpoint"));
}

TEST_F(ExportTest, ReplacesNothing) {
  save(source_, Tree{{"a", counted({2})}});
  testing::write_text(folder_ / "out.safetensors", "mine");

  const testing::CliResult result = run("out.safetensors");

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("already exists"));
  EXPECT_EQ(testing::read_text(folder_ / "out.safetensors"), "mine");
}

TEST_F(ExportTest, RefusesATargetWithoutAName) {
  save(source_, Tree{{"a", counted({2})}});

  EXPECT_THAT(run_cli({"export", source_, ""}).err, HasSubstr("the path is empty"));
  EXPECT_THAT(run_cli({"export", source_, "/"}).err, HasSubstr("already exists"));
}

TEST_F(ExportTest, RefusesATargetInACheckpoint) {
  const std::string other = folder_ / "other";
  save(source_, Tree{{"a", counted({2})}});
  save(other, Tree{{"b", counted({2})}});
  const std::vector<std::string> in_source = testing::list_tree(source_);

  for (const std::string target :
       {"checkpoint/out", "checkpoint/state/out.safetensors", "other/out.safetensors"}) {
    const testing::CliResult result = run(target);
    EXPECT_EQ(result.status, 1) << target;
    EXPECT_THAT(result.err, AllOf(HasSubstr(folder_ / target), HasSubstr("holds only its own files")));
  }
  EXPECT_EQ(testing::list_tree(source_), in_source);
  EXPECT_EQ(testing::list_tree(other), in_source);
}

TEST_F(ExportTest, RefusesATargetAmongTheFilesThatItReads) {
  save(source_, Tree{{"a", counted({2})}});
  ASSERT_EQ(run("foreign").status, 0);

  const testing::CliResult result =
      run_cli({"export", folder_ / "foreign", folder_ / "foreign/out.safetensors"});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("lies in the folder that is exported"));
  EXPECT_EQ(load(folder_ / "foreign"), (Tree{{"a", counted({2})}}));
}

TEST_F(ExportTest, LeavesNothingWhenTheCheckpointIsDamaged) {
  save(source_, Tree{{"a", counted({5000})}});
  for (const auto& entry : fs::directory_iterator(fs::path(source_) / "state")) {
    if (entry.path().extension() == ".safetensors") {
      std::string bytes = testing::read_text(entry.path());
      bytes.back() = static_cast<char>(bytes.back() ^ 1);
      testing::write_text(entry.path(), bytes);
    }
  }

  const testing::CliResult result = run("out");

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("data-r00000-000.safetensors"));
  EXPECT_THAT(names(), ElementsAre("checkpoint"));
}

TEST_F(ExportTest, DoesNotPassOverACheckpointableThatIsDamaged) {
  save_checkpointables(source_, {{"model", Tree{{"w", counted({2})}}}, {"other", Tree{{"v", counted({3})}}}});
  fs::resize_file(fs::path(source_) / "model/index.fb", 20);

  EXPECT_THAT(run("out.safetensors").err,
              AllOf(HasSubstr("model/index.fb"), HasSubstr("20 bytes instead of")));
  EXPECT_FALSE(fs::exists(folder_ / "out.safetensors"));
  EXPECT_EQ(run("out.safetensors", {"--name", "other"}).status, 0);
}

TEST_F(ExportTest, SaysThatThereIsNothingToExport) {
  save(source_, Tree{{"step", 7}});

  EXPECT_THAT(run("out").err, HasSubstr("no checkpointable has arrays"));
  EXPECT_THAT(run_cli({"export", folder_ / "nowhere", folder_ / "out"}).err, HasSubstr("nowhere"));
}

}  // namespace
}  // namespace cairn
