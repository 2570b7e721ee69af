// SPDX-License-Identifier: Apache-2.0
// Leaves that are asked for in another form than they were saved in, or as they were.
#include <bit>
#include <cfenv>
#include <cstdint>
#include <limits>
#include <vector>

#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "handlers/store.hpp"
#include "support/other_arithmetic.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;

class WantedNumber : public testing::StoreTest {
 protected:
  Tree load_as(std::string_view key, AbstractTree leaf, const TreeLoadOptions& options = {}) {
    AbstractTree wanted = metadata<AbstractTree>();
    wanted[key] = std::move(leaf);
    return load<Tree>({"item", std::move(wanted)}, options)[key];
  }
};

TEST_F(WantedNumber, IntegersBecomeTheFloatsThatTheyAre) {
  save(Tree({{"x", 1}, {"y", 2}}));

  EXPECT_EQ(load_as("x", TreeKind::floating), Tree(1.0));
}

TEST_F(WantedNumber, IntegersThatNoDoubleIsNeedNarrowing) {
  save(Tree({{"a/b", (std::int64_t{1} << 53) + 1}}));

  EXPECT_THAT(
      [&] { load_as("a/b", TreeKind::floating); },
      Fails(Errc::unsafe_cast, AllOf(HasSubstr("index.fb"), HasSubstr("'a~1b' is 9007199254740993"))));
  EXPECT_EQ(load_as("a/b", {TreeKind::floating, Narrowing::allowed}), Tree(9007199254740992.0));
}

TEST_F(WantedNumber, FloatsBecomeIntegersOnlyByNarrowing) {
  save(Tree({{"x", 2.9}, {"y", 1e19}, {"z", 1e300}}));

  EXPECT_THAT([&] { load_as("x", TreeKind::integer); }, Fails(Errc::unsafe_cast, HasSubstr("'x' is 2.9")));
  EXPECT_EQ(load_as("x", {TreeKind::integer, Narrowing::allowed}), Tree(2));
  EXPECT_EQ(load_as("y", {TreeKind::integer, Narrowing::allowed}),
            Tree(std::uint64_t{10'000'000'000'000'000'000U}));
  EXPECT_EQ(load_as("z", {TreeKind::integer, Narrowing::allowed}),
            Tree(std::numeric_limits<std::uint64_t>::max()));
}

TEST_F(WantedNumber, TheOptionAllowsNarrowingForAll) {
  save(Tree({{"x", 2.9}}));
  TreeLoadOptions options;
  options.allow_narrowing = true;

  EXPECT_EQ(load_as("x", TreeKind::integer, options), Tree(2));
}

TEST_F(WantedNumber, OtherKindsStayMismatches) {
  save(Tree({{"x", true}, {"y", "1"}}));

  EXPECT_THAT(
      [&] {
        load_as("x", {TreeKind::integer, Narrowing::allowed});
      },
      Fails(Errc::type_mismatch, HasSubstr("'x'")));
  EXPECT_THAT([&] { load_as("y", TreeKind::floating); }, Fails(Errc::type_mismatch, HasSubstr("'y'")));
}

TEST(WantedNumbers, NarrowingIsRefusedForWhatIsNoNumber) {
  EXPECT_THAT([] { AbstractTree(TreeKind::string, Narrowing::allowed); },
              Fails(Errc::invalid_argument, HasSubstr("string")));
}

class AsSavedTest : public testing::StoreTest {
 protected:
  AsSavedTest() { save(state_); }

  Tree load_wanted(AbstractTree wanted, const TreeLoadOptions& options = {}) {
    return load<Tree>({"item", std::move(wanted)}, options);
  }

  const std::vector<float> w_{1, 2, 3};
  const Tree state_ = {{"params", {{"w", w_}, {"b", w_}}},
                       {"params-old", 5},
                       {"log", Tree::list({1, {{"loss", 0.5}}, "x"})},
                       {"empty", Tree::map()},
                       {"step", 100}};
};

TEST_F(AsSavedTest, BringsWholeSubtreesAndLeavesWithoutMetadata) {
  AbstractTree wanted;
  wanted["params"]["w"] = AbstractArray({3}, DType::float64);
  wanted["params"]["b"] = as_saved;
  wanted["params-old"] = as_saved;
  wanted["log"] = as_saved;
  wanted["empty"] = as_saved;
  wanted["step"] = as_saved;
  Tree expected = state_;
  expected["params"]["w"] = std::vector<double>{1, 2, 3};

  EXPECT_EQ(load_wanted(wanted), expected);
}

TEST_F(AsSavedTest, BringsEverythingWhenItIsTheRoot) {
  EXPECT_EQ(load_wanted(as_saved), state_);
}

TEST_F(AsSavedTest, GoesWithPlaceholdersAndPartialLoads) {
  AbstractTree wanted;
  wanted["log"] = as_saved;
  wanted["params"] = placeholder;
  TreeLoadOptions options;
  options.partial = true;

  EXPECT_EQ(load_wanted(wanted, options), Tree({{"log", state_["log"]}}));
}

TEST_F(AsSavedTest, BringsElementsOfLists) {
  AbstractTree wanted;
  wanted["log"].push_back(placeholder);
  wanted["log"].push_back(as_saved);
  TreeLoadOptions options;
  options.partial = true;

  EXPECT_EQ(load_wanted(wanted, options), Tree({{"log", Tree::list({nullptr, {{"loss", 0.5}}})}}));
}

TEST_F(AsSavedTest, IsMissedWhereNothingIsStored) {
  AbstractTree wanted = as_saved;
  wanted = AbstractTree();
  wanted["params"] = as_saved;
  wanted["param"] = as_saved;
  TreeLoadOptions options;
  options.partial = true;

  EXPECT_THAT([&] { load_wanted(wanted, options); },
              Fails(Errc::structure_mismatch, HasSubstr("1 wanted but not stored: 'param'")));
}

TEST_F(AsSavedTest, IsStrictAboutTheRest) {
  AbstractTree wanted;
  wanted["params"] = as_saved;

  EXPECT_THAT([&] { load_wanted(wanted); },
              Fails(Errc::structure_mismatch,
                    AllOf(HasSubstr("7 stored but not wanted"), HasSubstr("'params-old'"))));
}

TEST_F(WantedNumber, IsCastAsIeee754HasItByThreadsThatBeganWithAnotherControlWord) {
  save(Tree({{"w", std::vector<float>{0x1p-149F, 0x1p-127F}}, {"x", std::vector<double>{1 + 1e-9}}}));
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["w"].set_dtype(DType::float64);
  wanted["x"].set_dtype(DType::float32);
  Tree loaded;
  {
    const testing::OtherArithmetic arithmetic(FE_UPWARD);
    Context context;
    loaded = core::start_load(path(), {{"item", wanted}}, handlers_, LoadOptions(), context)
                 .wait()
                 .take<Tree>("item");
  }

  const auto wide = loaded.get<std::vector<double>>("w");
  EXPECT_EQ(std::bit_cast<std::uint64_t>(wide[0]), std::bit_cast<std::uint64_t>(0x1p-149));
  EXPECT_EQ(std::bit_cast<std::uint64_t>(wide[1]), std::bit_cast<std::uint64_t>(0x1p-127));
  EXPECT_EQ(loaded.get<std::vector<float>>("x"), std::vector<float>{1});
}

TEST(AbstractTreeAsSaved, IsNoContainerAndStaysAsItIs) {
  AbstractTree tree = as_saved;

  EXPECT_TRUE(tree.is_as_saved());
  EXPECT_FALSE(tree.is_placeholder());
  EXPECT_NE(tree, AbstractTree(placeholder));
  EXPECT_TRUE(tree.values().empty());
  tree.set_dtype(DType::bfloat16);
  EXPECT_EQ(tree, AbstractTree(as_saved));
  EXPECT_THAT([&] { static_cast<void>(tree["x"]); },
              Fails(Errc::type_mismatch, HasSubstr("as it was saved")));
}

}  // namespace
}  // namespace cairn
