// SPDX-License-Identifier: Apache-2.0
#include "cairn/sharding/policy.hpp"

#include <functional>

#include <gmock/gmock.h>

#include "sharding/slow_model.hpp"
#include "support/fails.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Dice;
using testing::Fails;
using ::testing::HasSubstr;

TEST(SliceSpec, IsWhatTensorFlowWrites) {
  EXPECT_EQ(slice_spec({3, 2}, Box({0, 1}, {3, 1})), "3 2 0,3:1,1");
  EXPECT_EQ(slice_spec({4}, Box::whole({4})), "4 0,4");
  EXPECT_EQ(slice_spec(Shape{}, Box()), "");
  EXPECT_THAT([] { return slice_spec({4}, Box({2}, {3})); }, Fails(Errc::invalid_argument));
}

TEST(SliceSpec, ComesBack) {
  Dice dice(11);
  for (int i = 0; i < 200; ++i) {
    const Shape shape = testing::random_shape(dice);
    Box box = Box::whole(shape);
    for (const PlacedBox& placed : testing::random_sharding(dice, shape).boxes(0, shape)) {
      box = placed.box;
    }
    const auto [full, read] = parse_slice_spec(slice_spec(shape, box));
    ASSERT_EQ(full, shape);
    ASSERT_EQ(read, box);
  }
}

TEST(ParseSliceSpec, RefusesOtherTexts) {
  for (const char* text :
       {" ", "3", "3 2", "3 2 ", "3 2 0,3", "3 2 0,3:1", "3 2 0,3:1,2", "3 2 0,3:1,1 ",
        "3 2 0,3:1,1:", "3 2 0,3:1,1:0,1", "3  2 0,3:1,1", "-3 0,1", "3 0;3", "a", "99999999999999999999 0,1",
        "18446744073709551615 18446744073709551615,18446744073709551615"}) {
    EXPECT_THAT([&] { return parse_slice_spec(text); }, Fails(Errc::malformed_metadata, HasSubstr("slice '")))
        << text;
  }
}

// ---- What policies may not do.

/// A policy whose result is said in a test.
class Fixed final : public ShardingPolicy {
 public:
  [[nodiscard]] std::string description() const override { return "Does as it is told."; }

  [[nodiscard]] std::vector<FilePlan> operator()(
      std::span<const ShardableTensor> /*tensors*/) const override {
    return {};
  }
};

std::vector<ShardableTensor> two_tensors() {
  std::vector<ShardableTensor> tensors(2);
  tensors[0].key = "a";
  tensors[0].full = {4, 2};
  tensors[0].slice = Box({2, 0}, {2, 2});
  tensors[1].key = "b";
  return tensors;
}

const TensorPart kAllOfA{0, {}, {}};
const TensorPart kAllOfB{1, {}, {}};

auto checking(std::vector<FilePlan> files, std::vector<ShardableTensor> tensors = two_tensors()) {
  return [files = std::move(files), tensors = std::move(tensors)] {
    check_policy_result(Fixed(), tensors, files);
  };
}

TEST(CheckPolicyResult, AcceptsAnyArrangementOfAnyParts) {
  EXPECT_NO_THROW(checking({{kAllOfA, kAllOfB}})());
  EXPECT_NO_THROW(checking({{kAllOfB}, {kAllOfA}})());
  EXPECT_NO_THROW(checking({{{0, Box({3, 0}, {1, 2}), {}}, kAllOfB}, {{0, Box({2, 0}, {1, 2}), {}}}})());
  EXPECT_NO_THROW(checking({}, {})());
}

TEST(CheckPolicyResult, NamesPolicyKeyAndSlice) {
  EXPECT_THAT(checking({{kAllOfB}}),
              Fails(Errc::incomplete_shards,
                    HasSubstr("sharding policy \"Does as it is told.\": 'a' (4 2 2,2:0,2): is in none")));
}

TEST(CheckPolicyResult, RefusesWhatIsLostOrDoubled) {
  EXPECT_THAT(checking({}), Fails(Errc::incomplete_shards));
  EXPECT_THAT(checking({{{0, Box({2, 0}, {2, 1}), {}}, kAllOfB}}),
              Fails(Errc::incomplete_shards,
                    AllOf(HasSubstr("'a': 2 of the 4 elements"), HasSubstr("[2:4, 1:2] is not"))));
  EXPECT_THAT(checking({{kAllOfA, kAllOfB, kAllOfA}}), Fails(Errc::overlapping_shards, HasSubstr("'a'")));
  EXPECT_THAT(checking({{kAllOfA, kAllOfB}, {kAllOfB}}), Fails(Errc::overlapping_shards, HasSubstr("'b'")));
}

TEST(CheckPolicyResult, RefusesWhatWasNotGiven) {
  EXPECT_THAT(checking({{kAllOfA, kAllOfB, {2, {}, {}}}}),
              Fails(Errc::invalid_argument, HasSubstr("no tensor 2 among 2")));
  EXPECT_THAT(checking({{{0, Box({0, 0}, {4, 2}), {}}, kAllOfB}}),
              Fails(Errc::invalid_argument, HasSubstr("[0:4, 0:2] is not within it")));
  EXPECT_THAT(checking({{kAllOfA, kAllOfB, {0, Box({2, 0}, {0, 2}), {}}}}),
              Fails(Errc::invalid_argument, HasSubstr("has no elements")));
  EXPECT_THAT(checking({{kAllOfA, kAllOfB}, {}}), Fails(Errc::invalid_argument, HasSubstr("nothing in it")));
}

TEST(CheckPolicyResult, RefusesFilesOfSeveralTasks) {
  std::vector<ShardableTensor> tensors = two_tensors();
  tensors[1].task = 3;

  EXPECT_THAT(checking({{kAllOfA, kAllOfB}}, tensors),
              Fails(Errc::invalid_argument, HasSubstr("'b' (): of task 3 is in a file of task 0")));
  EXPECT_NO_THROW(checking({{kAllOfA}, {kAllOfB}}, tensors)());
}

TEST(CheckPolicyResult, RefusesValuesOfAnotherKind) {
  const auto with = [](Shape shape, DType dtype) {
    return checking({{{0, {}, std::make_shared<Array>(std::move(shape), dtype)}, kAllOfB}});
  };

  EXPECT_NO_THROW(with({2, 2}, DType::float32)());
  EXPECT_THAT(
      with({4}, DType::float32),
      Fails(Errc::invalid_argument, HasSubstr("F32 of shape [4] was put in place of F32 of shape [2, 2]")));
  EXPECT_THAT(with({2, 2}, DType::int32), Fails(Errc::invalid_argument, HasSubstr("I32")));
}

TEST(CheckPolicyResult, WantsTensorsOfNoElementsOnce) {
  std::vector<ShardableTensor> tensors(1);
  tensors[0].key = "empty";
  tensors[0].full = {0, 3};

  EXPECT_NO_THROW(checking({{kAllOfA}}, tensors)());
  EXPECT_NO_THROW(checking({{{0, Box::whole({0, 3}), {}}}}, tensors)());
  EXPECT_THAT(checking({}, tensors), Fails(Errc::incomplete_shards));
  EXPECT_THAT(checking({{kAllOfA}, {kAllOfA}}, tensors), Fails(Errc::overlapping_shards));
}

TEST(CheckPolicyResult, RefusesCutsThroughPackedTypes) {
  std::vector<ShardableTensor> tensors(1);
  tensors[0].full = {4, 2};
  tensors[0].dtype = DType::float4;

  EXPECT_THAT(checking({{{0, Box({0, 0}, {2, 2}), {}}, {0, Box({2, 0}, {2, 2}), {}}}}, tensors),
              Fails(Errc::invalid_argument, HasSubstr("packed")));
}

}  // namespace
}  // namespace cairn
