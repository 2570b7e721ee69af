// SPDX-License-Identifier: Apache-2.0
// The examples of docs/sharding.md.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/sharding/flat_range.hpp"
#include "cairn/sharding/policies.hpp"
#include "cairn/sharding/sharding.hpp"
#include "cairn/sharding/share_plan.hpp"

namespace {

TEST(ShardingGuide, LayoutsSayWhoHoldsWhat) {
  // [layouts]
  const cairn::Mesh mesh({2, 2}, {"data", "model"});  // Rank 3 is at [1, 1].

  // As in JAX: columns over "model", copies along "data".
  const auto columns = cairn::Sharding::of_spec(mesh, {{}, {"model"}});
  const std::vector<cairn::PlacedBox> held = columns.boxes(3, {6, 8});  // [0:6, 4:8], replica 1

  // As in torch: what each axis of the mesh does.
  using cairn::Placement;
  const auto same = cairn::Sharding::of_placements(mesh, {Placement::replicate(), Placement::shard(1)});

  // Any boxes, and the rule behind them where there is one.
  const cairn::Sharding table = columns.as_boxes({6, 8});
  const std::optional<cairn::Sharding> rule = table.as_spec({6, 8});
  // [/layouts]
  EXPECT_EQ(held, (std::vector<cairn::PlacedBox>{{cairn::Box({0, 4}, {6, 4}), 1}}));
  EXPECT_EQ(same.boxes(3, {6, 8}), held);
  EXPECT_EQ(rule->boxes(3, {6, 8}), held);
}

TEST(ShardingGuide, RangesBecomeBoxes) {
  // [flat]
  // Elements 3 to 16 of a flattened matrix of 4 rows and 5 columns.
  for (const cairn::FlatPiece& piece : cairn::boxes_of_flat_range(cairn::Box::whole({4, 5}), 3, 17)) {
    // [0:1, 3:5], [1:3, 0:5] and [3:4, 0:2], which begin at 0, 2 and 12 of the range
    EXPECT_LE(piece.first, 12u);
  }
  // [/flat]
}

TEST(ShardingGuide, PlansSayWhoWritesWhat) {
  // [plan]
  const cairn::Mesh mesh({4}, {"data"});
  const cairn::SharePlan plan(
      {{"weights", cairn::DType::float32, {1024, 64}, cairn::Sharding::replicated(4)},
       {"moments", cairn::DType::float32, {1024, 64}, cairn::Sharding::of_spec(mesh, {{"data"}})}},
      4);
  for (const cairn::Share& share : plan.shares(2)) {
    // array 0, box [512:768, 0:64]; array 1, box [512:768, 0:64]
    EXPECT_EQ(share.box, cairn::Box({512, 0}, {256, 64}));
  }
  // [/plan]
}

// [policy]
/// Puts tensors that are wanted first into files of their own.
class Importance final : public cairn::ShardingPolicy {
 public:
  explicit Importance(std::string important) : important_(std::move(important)) {}

  std::string description() const override { return "Separates important tensors into their own files."; }

  std::vector<cairn::FilePlan> operator()(std::span<const cairn::ShardableTensor> tensors) const override {
    std::vector<cairn::FilePlan> files(2);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      files[tensors[i].name == important_ ? 0 : 1].push_back({i, {}, {}});
    }
    std::erase_if(files, [](const cairn::FilePlan& file) { return file.empty(); });
    return files;
  }

 private:
  std::string important_;
};
// [/policy]

TEST(ShardingGuide, PoliciesSayWhichFile) {
  std::vector<cairn::ShardableTensor> tensors(2);
  tensors[0].key = "model/rest";
  tensors[0].name = "rest";
  tensors[0].full = {300};
  tensors[0].size_bytes = 1200;
  tensors[1].key = "model/embedding";
  tensors[1].name = "embedding";
  tensors[1].full = {100};
  tensors[1].size_bytes = 400;
  // [compose]
  // Important tensors first, and no file of more than 1000 bytes.
  const auto policy =
      cairn::compose(std::make_shared<Importance>("embedding"), std::make_shared<cairn::MaxShardSize>(1000));
  const std::vector<cairn::FilePlan> files = (*policy)(tensors);
  cairn::check_policy_result(*policy, tensors, files);  // Nothing added, lost, doubled or altered.
  // [/compose]
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].at(0).tensor, 1u);
}

}  // namespace
