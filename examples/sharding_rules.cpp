// SPDX-License-Identifier: Apache-2.0
// Who holds which part of an array, who writes it, and into which file: rules only, nothing is saved.
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cairn/sharding/assignment_plan.hpp>
#include <cairn/sharding/flat_range.hpp>
#include <cairn/sharding/policy.hpp>
#include <cairn/sharding/sharding.hpp>

namespace {

void show_layouts() {
  // [layouts]
  const cairn::Mesh mesh({2, 2}, {"data", "model"});  // Rank 3 is at [1, 1].

  // As in JAX: columns over "model", copies along "data".
  const auto columns = cairn::Sharding::of_spec(mesh, {{}, {"model"}});
  for (const cairn::PlacedBox& held : columns.boxes(3, {6, 8})) {
    std::cout << "rank 3 holds " << held.box << ", replica " << held.replica
              << "\n";  // [0:6, 4:8], replica 1
  }

  // As in torch: what each axis of the mesh does.
  using cairn::Placement;
  const auto same = cairn::Sharding::of_placements(mesh, {Placement::replicate(), Placement::shard(1)});

  // Any boxes, and the rule behind them where there is one.
  const cairn::Sharding table = same.as_boxes({6, 8});
  const std::optional<cairn::Sharding> rule = table.as_spec({6, 8});
  // [/layouts]
  std::cout << "as a rule: " << (rule ? rule->to_json() : "none") << "\n";
}

void show_ranges() {
  // [flat]
  // Elements 3 to 16 of a flattened matrix of 4 rows and 5 columns: [0:1, 3:5], [1:3, 0:5] and [3:4, 0:2].
  for (const cairn::FlatPiece& piece : cairn::boxes_of_flat_range(cairn::Box::whole({4, 5}), 3, 17)) {
    std::cout << piece.box << " begins at " << piece.first << " of the range\n";  // 0, 2, 12
  }
  // [/flat]
}

void show_plan() {
  // [plan]
  const auto rows = cairn::Sharding::of_spec(cairn::Mesh({4}, {"data"}), {{"data"}});
  const auto copies = cairn::Sharding::replicated(4);
  const cairn::sharding::AssignmentPlan plan({{"weights", cairn::DType::float32, {1024, 64}, copies},
                                              {"moments", cairn::DType::float32, {1024, 64}, rows}},
                                             4);
  for (const cairn::sharding::WriteAssignment& write : plan.assignments(2)) {
    std::cout << plan.arrays()[write.array].name << " " << write.box << "\n";  // [512:768, 0:64] of both
  }
  // [/plan]
}

// [policy]
/// Puts tensors that are wanted first into a file of their own.
class Importance final : public cairn::ShardingPolicy {
 public:
  explicit Importance(std::string important) : important_(std::move(important)) {}

  std::string description() const override { return "Separates important tensors into their own file."; }

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

cairn::ShardableTensor floats(std::string_view name, std::uint64_t count) {
  cairn::ShardableTensor tensor;
  tensor.key = tensor.name = name;
  tensor.full = {count};
  tensor.size_bytes = 4 * count;
  return tensor;
}

void show_policies() {
  const std::vector<cairn::ShardableTensor> tensors = {floats("rest", 300), floats("embedding", 100)};
  // [compose]
  // Important tensors first, and no file of more than 1000 bytes.
  const auto policy =
      cairn::compose(std::make_shared<Importance>("embedding"), std::make_shared<cairn::MaxShardSize>(1000));
  const std::vector<cairn::FilePlan> files = (*policy)(tensors);
  cairn::check_policy_result(*policy, tensors, files);  // Nothing added, lost, doubled or altered.
  // [/compose]
  std::cout << files.size() << " files\n";
}

}  // namespace

int main() {
  try {
    show_layouts();
    show_ranges();
    show_plan();
    show_policies();
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
