// SPDX-License-Identifier: Apache-2.0
// Options that decide what is stored, which the ranks of a save must have alike.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cairn/array/stored_slices.hpp"
#include "cairn/handlers/array_rules.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/sharding/policy.hpp"
#include "cairn/sharding/shards.hpp"

#include "api/fixture.hpp"
#include "core/joint_job.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::JointJob;
using ::testing::Not;
using testing::RankEnd;

class OptionsOfRanks : public testing::ApiTest {
 protected:
  using Set = std::function<void(SaveOptions&)>;

  static constexpr std::size_t kRanks = 4;

  /// Two rows of each array; all elements are `value`.
  static Tree tree_of(std::size_t rank, std::size_t arrays, float value) {
    const Sharding rows = Sharding::of_spec(Mesh({kRanks}, {"data"}), {{"data"}});
    Tree tree = {{"bias", std::vector<float>{value}}};
    for (std::size_t i = 0; i < arrays; ++i) {
      Array local({2, 10}, DType::float32);
      std::ranges::fill(local.data<float>(), value);
      tree["w" + std::to_string(i)] =
          shard(rows, static_cast<std::uint32_t>(rank), {2 * kRanks, 10}, DType::float32, {local});
    }
    return tree;
  }

  /// How a save ends on each rank.
  std::vector<std::string> save_on(JointJob& job, std::size_t arrays, float value,
                                   const std::function<void(std::size_t rank, SaveOptions&)>& set) const {
    std::vector<std::string> ends;
    for (const RankEnd& end : job.on_all([&](std::size_t rank) {
           SaveOptions options = testing::overwriting_save();
           set(rank, options);
           return save(target(), tree_of(rank, arrays, value), options, job.context(rank));
         })) {
      ends.push_back(end.text());
    }
    return ends;
  }

  /// What all ranks are told where rank 2 has other options than the others.
  void expect_told(const Set& of_most, const Set& of_rank_2, const std::string& words) const {
    JointJob job{JointJob::Options(kRanks)};
    EXPECT_THAT(
        save_on(job, 1, 1,
                [&](std::size_t rank, SaveOptions& options) { (rank == 2 ? of_rank_2 : of_most)(options); }),
        Each(AllOf(HasSubstr("the ranks do not save the same: " + words),
                   Not(HasSubstr("'state' (handler")))));
    EXPECT_THAT(left(), ::testing::IsEmpty());
  }

  static void set_none(SaveOptions& /*options*/) {}

  static Set rule(const std::string& pattern) {
    return [pattern](SaveOptions& options) {
      options.handler_options.set(
          ArrayRules().add_for("state", pattern, ArrayForm(std::make_shared<AllInOne>())));
    };
  }

  static Set storage(DType dtype, Narrowing narrowing) {
    return [=](SaveOptions& options) { options.handler_options.set(ArrayOptions(dtype, narrowing)); };
  }
};

TEST_F(OptionsOfRanks, AreRulesThatGivePolicies) {
  JointJob job{JointJob::Options(kRanks)};
  const auto set = [](std::size_t, SaveOptions& options) {
    options.handler_options.set(
        ArrayRules().add("w0", std::make_shared<MaxShardSize>(40)).add("bias", std::make_shared<AllInOne>()));
  };
  EXPECT_THAT(save_on(job, 2, 3, set), Each("committed"));

  const Tree loaded = load(target(), {}, *context_);
  EXPECT_THAT(loaded.get<std::vector<float>>("w0"), Each(3.0F));
  AbstractTree stored = metadata(target(), *context_);
  EXPECT_EQ(stored["w0"].policy(), MaxShardSize(40).description());
  EXPECT_EQ(stored["w0"].as_array().stored->size(), 2 * kRanks);
  EXPECT_EQ(stored["bias"].policy(), AllInOne().description());
  EXPECT_EQ(stored["w1"].policy(), "");
  EXPECT_EQ(stored["w1"].as_array().stored->size(), kRanks);
}

TEST_F(OptionsOfRanks, AreNamedWhereRulesDiffer) {
  const std::string policy = "divided by \"" + AllInOne().description() + "\"'";
  expect_told(rule("w0"), rule("**"),
              "rule 1 of ArrayRules: ranks 0, 1 and 3 have 'the rule 'w0' for 'state', " + policy +
                  ", rank 2 has 'the rule '**' for 'state', " + policy);
  expect_told(rule("w0"), set_none,
              "rule 1 of ArrayRules: ranks 0, 1 and 3 have 'the rule 'w0' for 'state', " + policy +
                  ", rank 2 has none");
}

TEST_F(OptionsOfRanks, MayKeepElementsInDifferentWays) {
  JointJob job{JointJob::Options(kRanks)};
  const auto set = [](std::size_t rank, SaveOptions& options) {
    if (rank == 1) {
      options.handler_options.set(ArrayRules().add("w0", Snapshot::share));
    }
  };

  EXPECT_THAT(save_on(job, 1, 3, set), Each("committed"));
}

TEST_F(OptionsOfRanks, AreNamedWhereShardingDiffers) {
  const auto main_replicas = [](SaveOptions& options) {
    ShardingOptions sharding;
    sharding.replicas = ReplicaChoice::main;
    options.handler_options.set(sharding);
  };
  const auto policy = [](SaveOptions& options) {
    options.handler_options.set(ShardingOptions(std::make_shared<AllInOne>()));
  };

  expect_told(main_replicas, set_none,
              "ShardingOptions::replicas: ranks 0, 1 and 3 have 'main', rank 2 has none");
  expect_told(
      set_none, policy,
      "ShardingOptions::policy: ranks 0, 1 and 3 have none, rank 2 has '" + AllInOne().description() + "'");
}

TEST_F(OptionsOfRanks, AreNamedWhereOnlyTheSizeOfFilesDiffers) {
  const auto of_size = [](std::uint64_t bytes) -> Set {
    return [bytes](SaveOptions& options) {
      options.handler_options.set(ShardingOptions(std::make_shared<MaxShardSize>(bytes)));
    };
  };
  expect_told(of_size(40), of_size(80),
              "ShardingOptions::policy: ranks 0, 1 and 3 have '" + MaxShardSize(40).description() +
                  "', rank 2 has '" + MaxShardSize(80).description() + "'");
}

TEST_F(OptionsOfRanks, AreNamedWhereStorageDiffers) {
  expect_told(storage(DType::float64, Narrowing::refused), storage(DType::bfloat16, Narrowing::allowed),
              "ArrayOptions::storage_dtype: ranks 0, 1 and 3 have 'F64', rank 2 has 'BF16'");
  expect_told(storage(DType::float64, Narrowing::refused), storage(DType::float64, Narrowing::allowed),
              "ArrayOptions::narrowing: ranks 0, 1 and 3 have none, rank 2 has 'allowed'");
}

/// Options of a handler of somebody's.
struct Level {
  int level = 0;

  [[nodiscard]] OptionWords same_on_all_ranks() const { return {{"Level", std::to_string(level)}}; }
};

TEST_F(OptionsOfRanks, MayBeThoseOfAnyHandler) {
  const auto level = [](int value) -> Set {
    return [value](SaveOptions& options) { options.handler_options.set(Level{value}); };
  };

  expect_told(level(3), level(4), "Level: ranks 0, 1 and 3 have '3', rank 2 has '4'");
}

TEST_F(OptionsOfRanks, TakeNoMoreBytesWhereThereAreMany) {
  JointJob::Options quiet(kRanks);
  quiet.lost_after = std::chrono::hours(2);
  quiet.heartbeat = std::chrono::hours(1);  // Signs of life would be counted, too.
  JointJob job{quiet};
  const auto set = [](std::size_t, SaveOptions& options) {
    const auto policy = std::make_shared<AllInOne>();  // One, so that there is one file to tell of.
    ArrayRules rules;
    for (int i = 0; i < 300; ++i) {
      rules.add("w" + std::to_string(i), policy);
    }
    options.handler_options.set(std::move(rules));
  };
  EXPECT_THAT(save_on(job, 300, 1, set), Each("committed"));
  const std::uint64_t before = job.network().sent_bytes(3);

  EXPECT_THAT(save_on(job, 300, 2, set), Each("committed"));

  EXPECT_LT(job.network().sent_bytes(3) - before, 2'000u);
}

TEST_F(OptionsOfRanks, ThatDifferedLeaveTheNextSaveAlone) {
  JointJob job{JointJob::Options(kRanks)};
  const auto differ = [](std::size_t rank, SaveOptions& options) {
    options.handler_options.set(Level{rank == 2 ? 1 : 2});
  };
  const auto agree = [](std::size_t, SaveOptions& options) { options.handler_options.set(Level{2}); };

  EXPECT_THAT(save_on(job, 1, 1, agree), Each("committed"));
  EXPECT_THAT(save_on(job, 1, 2, differ), Each(HasSubstr("Level")));
  EXPECT_THAT(save_on(job, 1, 3, agree), Each("committed"));
  EXPECT_THAT(load(target(), {}, *context_).get<std::vector<float>>("w0"), Each(3.0F));
}

}  // namespace
}  // namespace cairn
