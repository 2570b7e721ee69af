// SPDX-License-Identifier: Apache-2.0
#include "cairn/megatron/strategies.hpp"

#include <gmock/gmock.h>

#include "support/fails.hpp"

namespace cairn::megatron {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LoadOfZarr final : public LoadStrategy {
 public:
  [[nodiscard]] std::vector<Backend> backends() const override { return {{"zarr", 1}, {"zarr", 2}}; }
  void prepare(AbstractStateDict& wanted, cairn::LoadOptions& /*options*/) const override {
    wanted.strict = Strict::log_all;
  }
};

TEST(Strategies, FindWhatIsBuiltIn) {
  const Strategies strategies = Strategies::built_in();

  EXPECT_EQ(strategies.save({"cairn", 1})->backend(), (Backend{"cairn", 1}));
  EXPECT_THAT(strategies.load({"cairn", 1})->backends(),
              ElementsAre(Backend{"cairn", 1}, Backend{"torch_dist", 1}));
  EXPECT_EQ(strategies.load({"torch_dist", 1}), strategies.load({"cairn", 1}));
}

TEST(Strategies, NameWhatThereIsWhereOneIsMissing) {
  const Strategies strategies = Strategies::built_in();

  EXPECT_THAT(
      [&] {
        return strategies.load({"zarr", 1});
      },
      Fails(Errc::invalid_argument,
            HasSubstr("no strategy loads backend 'zarr' 1; there are: cairn 1, torch_dist 1")));
  EXPECT_THAT(
      [&] {
        return strategies.save({"torch_dist", 1});
      },
      Fails(Errc::invalid_argument,
            HasSubstr("no strategy saves backend 'torch_dist' 1; there are: cairn 1")));
  EXPECT_THAT([&] { return strategies.load({"cairn", 2}); }, Fails(Errc::invalid_argument));
  EXPECT_THAT(
      [] {
        return Strategies().save({"cairn", 1});
      },
      Fails(Errc::invalid_argument, HasSubstr("there are: none")));
}

TEST(Strategies, TakeOnesOfTheProgram) {
  Strategies strategies = Strategies::built_in();
  const auto mine = std::make_shared<LoadOfZarr>();

  strategies.add(mine).add(std::make_shared<FullyParallelSave>());

  EXPECT_EQ(strategies.load({"zarr", 2}), mine);
  EXPECT_TRUE(dynamic_cast<const FullyParallelSave*>(strategies.save({"cairn", 1}).get()));
  EXPECT_THAT([&] { strategies.add(std::shared_ptr<const SaveStrategy>()); }, Fails(Errc::invalid_argument));
}

TEST(FullyParallelSave, ChangesHowTheInnerOneSaves) {
  StateDictSaveRules rules;
  cairn::SaveOptions options;

  PlainSave().prepare(rules, options);
  EXPECT_EQ(rules.replicas, ReplicaChoice::main);

  const FullyParallelSave parallel(nullptr, {0, 2, 4});
  parallel.prepare(rules, options);
  EXPECT_EQ(rules.replicas, ReplicaChoice::balanced);
  EXPECT_THAT(rules.group, ElementsAre(0, 2, 4));
  EXPECT_EQ(parallel.backend(), PlainSave().backend());
}

TEST(FullyParallelLoad, LoadsTogether) {
  AbstractStateDict wanted;
  cairn::LoadOptions options;
  const FullyParallelLoad parallel(std::make_shared<LoadOfZarr>(), {1, 3});

  parallel.prepare(wanted, options);

  EXPECT_TRUE(options.together);
  EXPECT_THAT(options.group, ElementsAre(1, 3));
  EXPECT_EQ(wanted.strict, Strict::log_all) << "as the inner one says";
  EXPECT_THAT(parallel.backends(), ElementsAre(Backend{"zarr", 1}, Backend{"zarr", 2}));
}

TEST(StateDictSaveRules, SayWhatRanksMustHaveAlike) {
  StateDictSaveRules rules;
  EXPECT_THAT(rules.same_on_all_ranks(), IsEmpty());

  rules.requires_same_common = true;
  rules.before_comparison = [](const Tree& common) { return common; };
  rules.replicas = ReplicaChoice::main;
  rules.group = {0, 1};
  rules.for_torch = true;

  EXPECT_THAT(rules.same_on_all_ranks(), ::testing::SizeIs(5));
}

}  // namespace
}  // namespace cairn::megatron
