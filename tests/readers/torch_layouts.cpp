// SPDX-License-Identifier: Apache-2.0
// Usage: cairn_torch_layouts FOLDER CHECKPOINTS SEED Saves random arrays in random layouts on random numbers of
// ranks, with every sharding policy, for torch to read. Elements are their numbers in the array. Prints a line of
// JSON for each checkpoint: its path, whether a save has said that torch will refuse it, and the shapes of its
// arrays.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/sharding/flat_range.hpp"
#include "cairn/sharding/policy.hpp"
#include "cairn/sharding/shards.hpp"
#include "cairn/testing/local_ranks.hpp"

namespace {

using namespace cairn;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t n) { return random_() % n; }

 private:
  std::mt19937_64 random_;
};

/// An array, and the boxes of it that each rank holds.
struct Divided {
  std::string name;
  Array whole;
  std::vector<std::vector<PlacedBox>> boxes;  // By rank.
};

Array some_array(Dice& dice) {
  std::vector<std::uint64_t> extents(1 + dice.below(3));
  for (std::uint64_t& extent : extents) {
    extent = 1 + dice.below(dice.below(4) == 0 ? 30 : 9);
  }
  Array array(Shape(extents), DType::float32);
  const auto elements = array.data<float>();
  std::iota(elements.begin(), elements.end(), 0.0F);
  return array;
}

Divided some_division(Dice& dice, std::string name, std::uint32_t ranks) {
  Divided made{std::move(name), some_array(dice), {}};
  const Shape& shape = made.whole.shape();
  const std::uint64_t elements = *element_count(shape);
  const std::uint64_t kind = dice.below(3);
  std::vector<std::vector<std::string>> spec(shape.size());
  spec[dice.below(shape.size())].emplace_back("data");
  const Sharding rule =
      kind == 0 ? Sharding::replicated(ranks) : Sharding::of_spec(Mesh({ranks}, {"data"}), spec);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    std::vector<PlacedBox>& held = made.boxes.emplace_back();
    if (kind < 2) {
      held = rule.boxes(rank, shape);
      continue;
    }
    for (FlatPiece& piece :
         boxes_of_flat_range(Box::whole(shape), elements * rank / ranks, elements * (rank + 1) / ranks)) {
      held.push_back({std::move(piece.box), 0});
    }
  }
  return made;
}

ShardedArray part_of(const Divided& array, std::uint32_t rank) {
  std::vector<Shard> shards;
  for (const PlacedBox& placed : array.boxes[rank]) {
    shards.push_back({placed.box, array.whole.part(placed.box).clone(), placed.replica});
  }
  return {array.whole.shape(), array.whole.dtype(), std::move(shards)};
}

/// Null for what Cairn does by itself.
std::shared_ptr<const ShardingPolicy> some_policy(std::uint64_t number, Dice& dice) {
  const std::uint64_t bytes = 40 + dice.below(2000);
  const auto prefix = std::make_shared<ByPrefix>(std::vector<std::string>{"state/a1"});
  switch (number % 9) {
    case 1:
      return std::make_shared<MaxFileSize>(bytes);
    case 2:
      return std::make_shared<MaxShardSize>(bytes);
    case 3:
      return std::make_shared<Tiles>(bytes);
    case 4:
      return compose(prefix, std::make_shared<MaxShardSize>(bytes));
    case 5:
      return compose(prefix, std::make_shared<MaxFileSize>(bytes));
    case 6:
      return std::make_shared<AllInOne>();
    case 7:
      return std::make_shared<ShardByDevice>();
    default:
      return nullptr;
  }
}

std::string line_of(const std::string& path, bool is_marked, const std::vector<Divided>& arrays) {
  std::string line =
      R"({"path": ")" + path + R"(", "is_marked": )" + (is_marked ? "true" : "false") + R"(, "arrays": {)";
  for (const Divided& array : arrays) {
    line += (line.back() == '{' ? "\"" : ", \"") + array.name + "\": [";
    for (const std::uint64_t extent : array.whole.shape()) {
      line += (line.back() == '[' ? "" : ", ") + std::to_string(extent);
    }
    line += "]";
  }
  return line + "}}";
}

std::string save_one(const std::string& path, std::uint64_t number, Dice& dice) {
  const auto ranks = static_cast<std::uint32_t>(1 + dice.below(5));
  std::vector<Divided> arrays;
  for (std::uint64_t i = 0; i < 4; ++i) {
    arrays.push_back(some_division(dice, "a" + std::to_string(i), ranks));
  }
  SaveOptions options;
  options.handler_options.set(ShardingOptions(some_policy(number, dice)));
  std::atomic<bool> is_marked = false;
  const std::string failures =
      testing::failures_on_ranks(ranks, [&](const std::shared_ptr<coord::Coordinator>& coordinator) {
        ContextOptions of_rank;
        of_rank.staging_bytes = std::size_t{16} << 20;
        of_rank.coordinator = coordinator;
        const Context context(std::move(of_rank));
        Tree tree;
        for (const Divided& array : arrays) {
          tree[array.name] = part_of(array, static_cast<std::uint32_t>(coordinator->rank()));
        }
        for (const std::string& problem : save(path, tree, options, context).problems) {
          if (problem.find("torch refuses") != std::string::npos) {
            is_marked = true;
          }
        }
      });
  if (!failures.empty()) {
    throw std::runtime_error(path + ": " + failures);
  }
  return line_of(path, is_marked, arrays);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: cairn_torch_layouts FOLDER CHECKPOINTS SEED\n";
    return 2;
  }
  try {
    Dice dice(std::strtoull(argv[3], nullptr, 10));
    const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
    for (std::uint64_t i = 0; i < count; ++i) {
      std::cout << save_one(std::string(argv[1]) + "/" + std::to_string(i), i, dice) << "\n";
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
