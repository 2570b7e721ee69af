// SPDX-License-Identifier: Apache-2.0
// What the tool says of a checkpoint that several ranks have saved.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/array/sharded_array.hpp"
#include "cairn/cairn.hpp"
#include "cairn/sharding/sharding.hpp"
#include "cairn/testing/local_ranks.hpp"

#include "cli/run_cli.hpp"
#include "support/temp_dir.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using testing::CliResult;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_cli;

constexpr std::uint32_t kRanks = 3;

/// A tree of a matrix whose rows three ranks hold, and of a number.
class ShardsOfRanks : public ::testing::Test {
 protected:
  ShardsOfRanks() {
    const auto rows =
        std::make_shared<const Sharding>(Sharding::of_spec(Mesh({kRanks}, {"data"}), {{"data"}}));
    const std::string failures =
        testing::failures_on_ranks(kRanks, [&](const std::shared_ptr<coord::Coordinator>& coordinator) {
          ContextOptions options;
          options.coordinator = coordinator;
          options.engine = io::EngineKind::threads;
          const Context context(std::move(options));
          const Box box = rows->boxes(static_cast<std::uint32_t>(coordinator->rank()), {6, 4})[0].box;
          const Array mine = Array::zeros(box.extents(), DType::float32);
          save(path_, Tree{{"w", ShardedArray({6, 4}, DType::float32, {{box, mine}}, rows)}, {"step", 7}},
               SaveOptions(), context);
        });
    EXPECT_EQ(failures, "");
  }

  [[nodiscard]] fs::path file_of_rank(std::uint32_t rank) const {
    return path_ / "state" / ("data-r0000" + std::to_string(rank) + "-000.safetensors");
  }

  [[nodiscard]] static json answer(std::vector<std::string> words) {
    words.emplace_back("--json");
    return json::parse(run_cli(words).out);
  }

  const testing::TempDir folder_;
  const fs::path path_ = folder_ / "checkpoint";
};

TEST_F(ShardsOfRanks, InspectShowsLayoutShardsAndWhoWroteThem) {
  const CliResult result = run_cli({"inspect", path_});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\n  DIVIDED  PARTS  RANKS  LAYOUT\n"
                                    "  w            3  0-2    spec (data) on mesh (data=3)\n"
                                    "  SHARD  BOX         FILE                         RANK\n"
                                    "  w      [0:2, 0:4]  data-r00000-000.safetensors     0\n"
                                    "  w      [2:4, 0:4]  data-r00001-000.safetensors     1\n"
                                    "  w      [4:6, 0:4]  data-r00002-000.safetensors     2\n"));
  EXPECT_THAT(result.out, ContainsRegex("FILE +SIZE  RANK\n"));
  EXPECT_THAT(result.out, ContainsRegex("  data-r00002-000.safetensors +[0-9.]+ KiB +2\n"));
}

TEST_F(ShardsOfRanks, InspectTellsProgramsTheSame) {
  const json item = answer({"inspect", path_})["checkpointables"]["state"];

  EXPECT_EQ(item["arrays"][0]["parts"], 3);
  EXPECT_EQ(item["arrays"][0]["ranks"], json({0, 1, 2}));
  EXPECT_EQ(
      item["arrays"][0]["shards"][1],
      json({{"offsets", {2, 0}}, {"extents", {2, 4}}, {"file", "data-r00001-000.safetensors"}, {"rank", 1}}));
  EXPECT_EQ(item["files"][2]["name"], "data-r00002-000.safetensors");
  EXPECT_EQ(item["files"][2]["rank"], 2);
}

TEST_F(ShardsOfRanks, InspectShowsTheFirstOfManyShards) {
  std::vector<Shard> rows;
  for (std::uint64_t row = 0; row < 20; ++row) {
    rows.push_back({Box({row}, {1}), Array::zeros({1}, DType::float32)});
  }
  save(folder_ / "many", Tree{{"v", ShardedArray({20}, DType::float32, std::move(rows))}});

  const CliResult result = run_cli({"inspect", folder_ / "many"});

  EXPECT_THAT(result.out, AllOf(HasSubstr("  v           20  -      -\n"), HasSubstr("[15:16]"),
                                Not(HasSubstr("[16:17]")), HasSubstr("  v      … and 4 more")));
  EXPECT_EQ(answer({"inspect", folder_ / "many"})["checkpointables"]["state"]["arrays"][0]["shards"].size(),
            20u);
}

TEST_F(ShardsOfRanks, LsShowsLayoutPartsAndRanks) {
  const CliResult result = run_cli({"ls", "--all", path_});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, ContainsRegex("CHECKPOINTABLE +HANDLER +ARRAYS +SIZE +RANKS\n"
                                        "state +cairn.tree/1 +1 +[^\n]* KiB +0-2\n"));
  EXPECT_THAT(result.out,
              ContainsRegex("ARRAY +DTYPE +SHAPE +SIZE  PARTS  RANKS  LAYOUT\n"
                            "state/w +float32 +\\[6, 4\\] +96 B +3  0-2    spec \\(data\\) on mesh "
                            "\\(data=3\\)\n"));
  const json item = answer({"ls", "--all", path_})["checkpointables"]["state"];
  EXPECT_EQ(item["ranks"], json({0, 1, 2}));
  EXPECT_EQ(item["arrays"][0]["parts"], 3);
  EXPECT_EQ(item["arrays"][0]["ranks"], json({0, 1, 2}));
  EXPECT_FALSE(item["arrays"][0].contains("shards"));
}

TEST_F(ShardsOfRanks, LsOfOneProcessHasNoColumnsOfRanks) {
  save(folder_ / "single", Tree{{"v", Array::zeros({4}, DType::float32)}});

  EXPECT_THAT(run_cli({"ls", "--all", folder_ / "single"}).out,
              AllOf(Not(HasSubstr("RANKS")), Not(HasSubstr("PARTS"))));
}

TEST_F(ShardsOfRanks, VerifyNamesTheRankThatWroteAFile) {
  std::string text = testing::read_text(file_of_rank(2));
  text.back() = static_cast<char>(text.back() ^ 1);
  testing::write_text(file_of_rank(2), text);
  fs::remove(file_of_rank(1));
  fs::remove(path_ / ".chunks" / "r00002.xxh3");

  const CliResult result = run_cli({"verify", path_});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("r00001-000.safetensors (written by rank 1): it is missing\n"));
  EXPECT_THAT(result.out, HasSubstr("r00002-000.safetensors (written by rank 2): not the bytes"));
  EXPECT_THAT(result.out, HasSubstr("r00002.xxh3 (written by rank 2): it is missing\n"));
  const json problems = answer({"verify", path_})["problems"];
  std::vector<int> ranks;
  for (const json& problem : problems) {
    ranks.push_back(problem["rank"]);
  }
  EXPECT_THAT(ranks, ElementsAre(2, 1, 2));
}

TEST_F(ShardsOfRanks, VerifyNamesTheRankOfAChunk) {
  std::string text = testing::read_text(file_of_rank(0));
  text.back() = static_cast<char>(text.back() ^ 1);
  testing::write_text(file_of_rank(0), text);

  EXPECT_THAT(run_cli({"verify", path_}).err,
              HasSubstr("r00000-000.safetensors (written by rank 0): chunk 0 (bytes "));
}

}  // namespace
}  // namespace cairn::cli
