// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/array_rules.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cairn/handlers/json.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/handlers/tree_handler.hpp"
#include "cairn/sharding/policy.hpp"

#include "handlers/store.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kAllowed = Narrowing::allowed;

/// Returns whether a rule of that pattern is about an array of that path.
bool is_match(const std::string& pattern, std::string_view path) {
  ArrayRules rules;
  rules.add(pattern, DType::float16);
  return ArrayRules::Use(rules).form_of("item", path).storage_dtype.has_value();
}

TEST(ArrayRulesPattern, StandsForPaths) {
  EXPECT_TRUE(is_match("a/b", "a/b"));
  EXPECT_FALSE(is_match("a/b", "a/b/c"));
  EXPECT_FALSE(is_match("a/b", "a"));
  EXPECT_TRUE(is_match("*", "a"));
  EXPECT_FALSE(is_match("*", "a/b"));
  EXPECT_TRUE(is_match("a/*/c", "a/b/c"));
  EXPECT_TRUE(is_match("w*_*x", "weight_max"));
  EXPECT_FALSE(is_match("w*_*x", "weight_min"));
  EXPECT_FALSE(is_match("w*", ""));
}

TEST(ArrayRulesPattern, TwoStarsStandForAnyNumberOfKeys) {
  EXPECT_TRUE(is_match("**", ""));
  EXPECT_TRUE(is_match("**", "a/b/c"));
  EXPECT_TRUE(is_match("a/**", "a"));
  EXPECT_TRUE(is_match("a/**", "a/b/c"));
  EXPECT_FALSE(is_match("a/**", "ab/c"));
  EXPECT_TRUE(is_match("**/bias", "bias"));
  EXPECT_TRUE(is_match("**/bias", "layers/3/bias"));
  EXPECT_TRUE(is_match("a/**/x/**/z", "a/x/b/x/z"));
  EXPECT_FALSE(is_match("a/**/x/**/z", "a/b/z"));
}

TEST(ArrayRulesPattern, TakesNoTimeThatGrowsWithItsStars) {
  const std::string path(2000, 'a');
  std::string stars = "b";
  std::string keys = "b";
  std::string deep = "a";
  for (int i = 0; i < 200; ++i) {
    stars = "*a" + stars;
    keys = "**/" + keys;
    deep += "/a";
  }

  EXPECT_FALSE(is_match(stars, path));
  EXPECT_FALSE(is_match(keys, deep));
}

TEST(ArrayRules, LaterRulesWinInWhatTheySay) {
  ArrayRules rules;
  rules.add("**", DType::bfloat16, kAllowed).add("a/**", Snapshot::share).add("a/x", DType::float64);
  rules.add_for("model", "a/y", ArrayForm::as_in_memory());
  ArrayRules::Use use(rules);

  EXPECT_EQ(use.form_of("item", "b").storage_dtype, DType::bfloat16);
  const ArrayForm x = use.form_of("item", "a/x");
  EXPECT_EQ(x.storage_dtype, DType::float64);
  EXPECT_EQ(x.narrowing, Narrowing::refused);
  EXPECT_EQ(x.snapshot, Snapshot::share);
  EXPECT_EQ(use.form_of("item", "a/y").storage_dtype, DType::bfloat16);
  EXPECT_EQ(use.form_of("model", "a/y").storage_dtype, std::nullopt);
  EXPECT_EQ(use.form_of("model", "a/y").snapshot, Snapshot::share);
}

TEST(ArrayRules, OfPoliciesTheLastOneCounts) {
  const auto small = std::make_shared<const MaxShardSize>(8);
  const auto one = std::make_shared<const AllInOne>();
  ArrayRules rules;
  rules.add("**", small)
      .add("a/**", one)
      .add("a/x", DType::float64)
      .add_for("model", "a/y", ArrayForm::undivided());
  ArrayRules::Use use(rules);

  EXPECT_EQ(use.form_of("item", "b").policy, small);
  EXPECT_EQ(use.form_of("item", "a/x").policy, one);
  EXPECT_EQ(use.form_of("item", "a/y").policy, one);
  EXPECT_EQ(use.form_of("model", "a/y").policy, nullptr);
  EXPECT_TRUE(use.form_of("model", "a/y").has_no_policy);
}

TEST(ArrayRules, RefusesWrongPatternsAndForms) {
  ArrayRules rules;
  for (const char* pattern : {"/a", "a/", "a//b", "a**", "**b/c", "***"}) {
    EXPECT_THAT([&] { rules.add(pattern, DType::float32); },
                Fails(Errc::invalid_argument, HasSubstr(pattern)));
  }
  EXPECT_THAT([&] { rules.add("a", static_cast<DType>(200)); },
              Fails(Errc::invalid_argument, HasSubstr("the rule 'a' stores as 200")));
  EXPECT_THAT([&] { rules.add("a", static_cast<Snapshot>(9)); }, Fails(Errc::invalid_argument));
  EXPECT_THAT([&] { rules.add("a", ArrayForm()); }, Fails(Errc::invalid_argument, HasSubstr("sets nothing")));
  ArrayForm both = ArrayForm::undivided();
  both.policy = std::make_shared<AllInOne>();
  EXPECT_THAT([&] { rules.add("a", both); },
              Fails(Errc::invalid_argument, HasSubstr("the rule 'a' sets both a policy and undivided")));
  EXPECT_TRUE(rules.rules().empty());
}

class SaveByRules : public testing::StoreTest {
 protected:
  static SaveOptions with(ArrayRules rules, Snapshot snapshot = Snapshot::copy) {
    SaveOptions options;
    options.snapshot = snapshot;
    options.handler_options.set(std::move(rules));
    return options;
  }

  DType stored(std::string_view path) { return metadata<AbstractTree>().at(path).as_array().dtype; }

  std::vector<float> w_ = {1, 2, 3};
  std::vector<int> n_ = {1};
};

TEST_F(SaveByRules, StoresLeavesInDifferentTypes) {
  ArrayRules rules;
  rules.add("params/**", DType::bfloat16, kAllowed).add("params/norm", ArrayForm::as_in_memory());
  save(Tree({{"params", {{"w", w_}, {"norm", w_}, {"n", n_}}}, {"m", w_}}), with(rules));

  EXPECT_EQ(stored("params/w"), DType::bfloat16);
  EXPECT_EQ(stored("params/norm"), DType::float32);
  EXPECT_EQ(stored("params/n"), DType::int32);
  EXPECT_EQ(stored("m"), DType::float32);
}

TEST_F(SaveByRules, GoesOverTheOptionsOfAllArrays) {
  SaveOptions options = with(ArrayRules().add("m", ArrayForm::as_in_memory()));
  options.handler_options.set(ArrayOptions(DType::float64));
  save(Tree({{"w", w_}, {"m", w_}}), options);

  EXPECT_EQ(stored("w"), DType::float64);
  EXPECT_EQ(stored("m"), DType::float32);
}

TEST_F(SaveByRules, HoldsForArraysAloneAndDividedOnes) {
  save(Array(w_), with(ArrayRules().add("**", DType::float64)));
  EXPECT_EQ(metadata<AbstractArray>().dtype, DType::float64);

  SaveOptions again = with(ArrayRules().add("w", DType::float64));
  again.overwrite = true;
  again.handler_options.set(ShardingOptions(std::make_shared<MaxShardSize>(8)));
  save(Tree({{"w", w_}, {"m", w_}}), again);
  EXPECT_EQ(stored("w"), DType::float64);
  EXPECT_EQ(stored("m"), DType::float32);
  EXPECT_EQ(load<Tree>().get<std::vector<double>>("w"), (std::vector<double>{1, 2, 3}));
}

TEST_F(SaveByRules, DividesLeavesByOtherPolicies) {
  const std::vector<float> v = w_;
  const Tree tree = {{"params", {{"a", w_}, {"b", v}}}, {"m", w_}, {"n", n_}};
  const std::string small = MaxShardSize(8).description();
  const std::string one = AllInOne().description();
  SaveOptions options =
      with(ArrayRules().add("params/**", std::make_shared<MaxShardSize>(8)).add("n", ArrayForm::undivided()));
  options.handler_options.set(ShardingOptions(std::make_shared<AllInOne>()));
  save(tree, options);

  EXPECT_EQ(load<Tree>(), tree);
  const auto policy = [&](std::string_view path) { return metadata<AbstractTree>().at(path).policy(); };
  EXPECT_EQ(policy("params/a"), small);
  EXPECT_EQ(policy("params/b"), small);
  EXPECT_EQ(policy("m"), one);
  EXPECT_EQ(policy("n"), "");
  const Description description = item_metadata().description();
  ASSERT_EQ(description.policies.size(),
            2u);  // In the order of their files; 'n' is in the first, which is of none.
  EXPECT_EQ(description.policies[0].policy, one);
  EXPECT_THAT(description.policies[0].files, ::testing::ElementsAre("data-r00000-001.safetensors"));
  EXPECT_EQ(description.policies[1].policy, small);
  EXPECT_THAT(description.policies[1].files,
              ::testing::ElementsAre("data-r00000-002.safetensors", "data-r00000-003.safetensors",
                                     "data-r00000-004.safetensors"));
  EXPECT_EQ(metadata<AbstractTree>().policy(), one + "; " + small);
}

/// Puts all into one file, and counts how often it is asked for how many.
class Counting final : public ShardingPolicy {
 public:
  std::string description() const override { return "Counts."; }
  std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override {
    asked_.push_back(tensors.size());
    return AllInOne()(tensors);
  }
  const std::vector<std::size_t>& asked() const { return asked_; }

 private:
  mutable std::vector<std::size_t> asked_;
};

TEST_F(SaveByRules, AsksAPolicyOnceForAllThatItDivides) {
  const auto policy = std::make_shared<Counting>();
  save(Tree({{"a", {{"x", w_}, {"y", std::vector(w_)}}}, {"b", w_}, {"c", std::vector(w_)}}),
       with(ArrayRules().add("a/**", policy).add("c", policy)));

  EXPECT_THAT(policy->asked(), ::testing::ElementsAre(3));
  EXPECT_EQ(metadata<AbstractTree>()["b"].policy(), "");
}

TEST_F(SaveByRules, RefusesAPolicyThatDividesNothing) {
  EXPECT_THAT(
      [&] {
        save(Tree({{"w", w_}}), with(ArrayRules().add("v", std::make_shared<AllInOne>())));
      },
      Fails(Errc::invalid_argument, HasSubstr("no array of this save matches the rule 'v'")));
}

TEST_F(SaveByRules, RefusesToLoseValuesUnasked) {
  EXPECT_THAT(
      [&] {
        save(Tree({{"w", w_}}), with(ArrayRules().add("w", DType::bfloat16)));
      },
      Fails(Errc::unsafe_cast, HasSubstr("'w'")));
}

TEST_F(SaveByRules, RefusesRulesThatMatchNoArray) {
  ArrayRules rules;
  rules.add("w", DType::float64).add("param/**", DType::float64).add("step", DType::float64);
  rules.add_for("other", "w", ArrayForm(DType::float64));

  EXPECT_THAT(
      [&] {
        save(Tree({{"w", w_}, {"params", {{"w", w_}}}, {"step", 1}}), with(rules));
      },
      Fails(Errc::invalid_argument, AllOf(HasSubstr("no array of this save matches the rule 'param/**', the "
                                                    "rule 'step', the rule 'w' for 'other'"),
                                          Not(HasSubstr("rule 'w',")))));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(SaveByRules, NamesTheArraysThatAreMostLikeARuleThatMatchesNone) {
  const Tree tree = {{"bias", w_}, {"params", {{"norm", w_}, {"w", w_}}}};
  const auto refusal_of = [&](const char* pattern) {
    try {
      save(tree, with(ArrayRules().add(pattern, DType::float64)));
    } catch (const Error& error) {
      return error.detail().substr(error.detail().find("rule"));
    }
    return std::string("none");
  };

  EXPECT_EQ(refusal_of("parms/**"), "rule 'parms/**'; the nearest: 'params/norm'");
  EXPECT_EQ(refusal_of("PARAMS/w"), "rule 'PARAMS/w'; the nearest: 'params/w'");
  EXPECT_EQ(refusal_of("state/params/w"), "rule 'state/params/w'; the nearest: 'params/w'");
  EXPECT_EQ(refusal_of("w"), "rule 'w'; the nearest: 'params/w'");
  EXPECT_EQ(refusal_of("xyz"), "rule 'xyz'");
}

TEST(ArrayRules, NameTheCheckpointableThatIsMostLikeThatOfARule) {
  ArrayRules rules;
  rules.add_for("modle", "**", ArrayForm(DType::float64));
  ArrayRules::Use use(rules);

  static_cast<void>(use.form_of("ema", "w"));
  static_cast<void>(use.form_of("model", "w"));

  EXPECT_THAT([&] { use.end(); }, Fails(Errc::invalid_argument,
                                        HasSubstr("the rule '**' for 'modle'; the nearest: 'w' of 'model'")));
}

TEST_F(SaveByRules, RefusesRulesWhereNothingHasArrays) {
  EXPECT_THAT([&] { save(nlohmann::json(1), with(ArrayRules().add("**", DType::float64))); },
              Fails(Errc::invalid_argument, HasSubstr("no array of this save matches the rule '**': ")));
}

TEST_F(SaveByRules, CountsMatchesAnewInEachSave) {
  const SaveOptions options = with(ArrayRules().add("w", DType::float64));
  save(Tree({{"w", w_}}), options);
  SaveOptions again = options;
  again.overwrite = true;

  EXPECT_THAT([&] { save(Tree({{"v", w_}}), again); }, Fails(Errc::invalid_argument, HasSubstr("'w'")));
}

TEST_F(SaveByRules, CopiesLeavesOfASaveThatBorrows) {
  std::vector<float> changing(3'000'000, 1);
  const std::vector<float> constant(3'000'000, 2);
  const Tree tree = {{"a", constant}, {"b", changing}, {"c", constant}};

  AsyncResponse saving = start(tree, with(ArrayRules().add("b", Snapshot::copy), Snapshot::borrow));
  std::fill(changing.begin(), changing.end(), 3.0F);  // Staged: the copy is what is saved.
  saving.wait();

  const Tree loaded = load<Tree>();
  EXPECT_EQ(loaded["b"].as<std::span<const float>>()[2'999'999], 1.0F);
  EXPECT_EQ(loaded["a"].as<std::vector<float>>(), constant);
  EXPECT_EQ(loaded["c"].as<std::vector<float>>(), constant);
}

TEST_F(SaveByRules, SharesLeavesOfASaveThatCopies) {
  const Array shared = Array::zeros({3'000'000}, DType::float32);
  std::optional<Tree> tree = Tree({{"a", w_}, {"b", shared}, {"c", w_}});

  AsyncResponse saving = start(*tree, with(ArrayRules().add("b", Snapshot::share)));
  tree.reset();
  w_ = {0, 0, 0};
  saving.wait();

  const Tree loaded = load<Tree>();
  EXPECT_EQ(loaded["b"].as<Array>(), shared);
  EXPECT_EQ(loaded["c"].as<std::vector<float>>(), (std::vector<float>{1, 2, 3}));
}

TEST_F(SaveByRules, RefusesToShareWhatHasNoOwnerAndToBorrowUnlessTheSaveDoes) {
  const Tree tree = {{"w", w_}, {"m", w_}};

  EXPECT_THAT([&] { save(tree, with(ArrayRules().add("w", Snapshot::share))); },
              Fails(Errc::invalid_argument, HasSubstr("'w': the array has no owner")));
  EXPECT_THAT([&] { save(tree, with(ArrayRules().add("w", Snapshot::borrow))); },
              Fails(Errc::invalid_argument, HasSubstr("the rule 'w' borrows")));
  save(tree, with(ArrayRules().add("w", Snapshot::borrow), Snapshot::borrow));
}

TEST_F(SaveByRules, CopiesForAContextThatChecksHandlers) {
  ContextOptions context_options;
  context_options.check_handlers = true;
  const Context context(context_options);
  const Tree tree = {{"w", Array::zeros({1'000'000}, DType::float32)}};

  core::start_save(path(), Checkpointables{{"item", tree}}, handlers_,
                   with(ArrayRules().add("w", Snapshot::share)), context)
      .wait();

  EXPECT_EQ(load<Tree>(), tree);
}

}  // namespace
}  // namespace cairn
