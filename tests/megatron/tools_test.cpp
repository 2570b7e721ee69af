// SPDX-License-Identifier: Apache-2.0
// What the tool makes and tells of state dicts, and of Megatron-Core's folders: common state and objects are as good as
// tensors.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "cairn/api/load.hpp"
#include "cairn/sharding/policy.hpp"
#include "cairn/tools/diff.hpp"

#include "megatron/states_of_ranks.hpp"
#include "support/sha256.hpp"
#include "support/test_data.hpp"
#include "tools/internal/checkpoint_view.hpp"
#include "tools/internal/reshard.hpp"
#include "tools/internal/verify_foreign.hpp"

namespace cairn::megatron {
namespace {

using ::testing::Contains;
using testing::counted;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::read_text;
using testing::write_text;

std::filesystem::path newer_folder() {
  return testing::test_data() / "megatron/tp2_pp2";
}

std::filesystem::path older_folder() {
  return testing::test_data() / "megatron/flat_tp2_dp3";
}

class ToolsOfStateDicts : public testing::StatesOfRanks {
 protected:
  /// Copies a folder, so that it can be changed.
  [[nodiscard]] std::filesystem::path copy_of(const std::filesystem::path& folder) const {
    const std::filesystem::path copy = directory_ / "copy";
    std::filesystem::create_directories(copy);
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      write_text(copy / entry.path().filename(), read_text(entry.path()));
    }
    return copy;
  }

  [[nodiscard]] CheckpointDiff diff(const std::filesystem::path& a, const std::filesystem::path& b) const {
    return diff_checkpoints(a, b, {}, *context_);
  }

  [[nodiscard]] Description described(const std::filesystem::path& path) const {
    return tools::CheckpointView(checkpointables_metadata(path, *context_)).description("state");
  }

  static tools::ForeignVerification verified(const std::filesystem::path& folder) {
    return tools::verify_foreign(folder, "", 2, std::make_shared<std::atomic<std::uint64_t>>(0));
  }

  static void change(const std::filesystem::path& file, std::string_view from, std::string_view to) {
    std::string text = read_text(file);
    ASSERT_NE(text.find(from), std::string::npos);
    write_text(file, text.replace(text.find(from), from.size(), to));
  }
};

TEST_F(ToolsOfStateDicts, ReshardCarriesCommonStateAndObjects) {
  for (const auto& folder : {older_folder(), newer_folder()}) {
    std::filesystem::remove_all(target());

    static_cast<void>(tools::reshard(folder, target(), std::make_shared<AllInOne>()));

    EXPECT_EQ(backend_of(target()), (Backend{"cairn", 1}));
    EXPECT_EQ(load_common_state_dict(target(), *context_), load_common_state_dict(folder, *context_));
    EXPECT_EQ(load_plain_tensors(target(), *context_), load_plain_tensors(folder, *context_));
    EXPECT_THAT(diff(folder, target()).differences, IsEmpty());
  }
  const StateDict request = {{"rng", ShardedObject{"rng_state", std::nullopt, {2, 2}, {1, 0}}}};
  EXPECT_EQ(load_alone(request).state, load(request, newer_folder(), {}, *context_).state);
}

TEST_F(ToolsOfStateDicts, DiffComparesCommonState) {
  const auto changed = copy_of(older_folder());
  write_text(changed / "common.pt", read_text(testing::test_data() / "torch/state_dict.pt"));

  EXPECT_THAT(diff(older_folder(), older_folder()).differences, IsEmpty());
  std::vector<std::string> names;
  for (const Difference& difference : diff(older_folder(), changed).differences) {
    names.push_back(difference.name);
  }
  EXPECT_THAT(names, Contains("state/common_state/shard_0_1/lr"));
}

TEST_F(ToolsOfStateDicts, DiffComparesCommonStateAndObjectsOfOwnCheckpoints) {
  const auto state = [](int step, int seed) -> StateDict {
    return {{"w", ShardedTensor::from_rank_offsets("w", counted({4}))},
            {"rng", ShardedObject{"rng_state", Tree{{"seed", seed}}}},
            {"step", step}};
  };
  const auto other = directory_ / "other";
  save(state(1, 5), target(), {}, *context_);
  save(state(1, 6), other, overwriting(), *context_);
  std::vector<Difference> found = diff(target(), other).differences;
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].name, HasSubstr("rng_state/shard_0_1/seed"));

  save(state(2, 5), other, overwriting(), *context_);

  found = diff(target(), other).differences;
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].name, HasSubstr("common_state/shard_0_1/step"));
  EXPECT_EQ(found[0].a, "1");
  EXPECT_EQ(found[0].b, "2");
}

TEST_F(ToolsOfStateDicts, DescribeTheLeavesOfCommonState) {
  save({{"step", 17}}, target(), {}, *context_);
  for (const auto& path : {older_folder(), target()}) {
    const Description description = described(path);
    const auto step = std::find_if(description.values.begin(), description.values.end(), [](const auto& one) {
      return one.name == "common_state~1shard_0_1/step";
    });
    ASSERT_NE(step, description.values.end());
    EXPECT_EQ(std::get<std::int64_t>(step->value), 17);
  }
}

TEST_F(ToolsOfStateDicts, VerifyLooksAtCommonState) {
  const auto folder = copy_of(older_folder());
  const tools::ForeignVerification before = verified(folder);
  EXPECT_TRUE(before.report.is_sound());
  EXPECT_THAT(before.unchecked_files, ElementsAre(".metadata", "metadata.json"));
  EXPECT_EQ(before.unchecked_bytes, std::filesystem::file_size(folder / ".metadata") +
                                        std::filesystem::file_size(folder / "metadata.json"));

  change(folder / "common.pt", "step", "stop");

  const tools::ForeignVerification after = verified(folder);
  ASSERT_FALSE(after.report.problems.empty());
  EXPECT_EQ(after.report.problems[0].file, "common.pt");
}

TEST_F(ToolsOfStateDicts, VerifyComparesWithTheListOfHashes) {
  const auto folder = copy_of(older_folder());
  nlohmann::json list = {{"algorithm", "sha256"}};
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    list["files"][entry.path().filename().string()] = testing::sha256(read_text(entry.path()));
  }
  write_text(folder / "integrity.json", list.dump());
  const tools::ForeignVerification before = verified(folder);
  EXPECT_TRUE(before.report.is_sound());
  EXPECT_THAT(before.unchecked_files, IsEmpty());
  EXPECT_EQ(before.unchecked_bytes, 0u);

  change(folder / "metadata.json", "\"torch\"", "\"other\"");
  std::filesystem::remove(folder / "common.pt");

  std::vector<std::string> files;
  for (const auto& problem : verified(folder).report.problems) {
    files.push_back(problem.file);
  }
  EXPECT_THAT(files, ElementsAre("common.pt", "metadata.json"));
}

TEST_F(ToolsOfStateDicts, VerifySaysWhereAListOfHashesIsNone) {
  const auto folder = copy_of(older_folder());
  for (const char* text : {"", "[]", R"({"algorithm": "md5", "files": {}})"}) {
    write_text(folder / "integrity.json", text);

    const tools::ForeignVerification found = verified(folder);

    ASSERT_EQ(found.report.problem_count, 1u) << text;
    EXPECT_EQ(found.report.problems[0].file, "integrity.json");
  }
}

}  // namespace
}  // namespace cairn::megatron
