// SPDX-License-Identifier: Apache-2.0
#pragma once

// Plans of who writes what, their input, and what must hold for all of them.

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cairn/sharding/assignment_plan.hpp"

#include "sharding/slow_model.hpp"

namespace cairn::testing {

using sharding::AssignmentPlan;
using sharding::PlannedArray;
using sharding::WriteAssignment;

using Ranks = std::set<std::uint32_t>;

/// Which ranks write something of an array.
inline Ranks writers_of(const AssignmentPlan& plan, std::string_view name) {
  Ranks writers;
  for (std::uint32_t rank = 0; rank < plan.ranks(); ++rank) {
    for (const WriteAssignment& assignment : plan.assignments(rank)) {
      if (plan.arrays()[assignment.array].name == name) {
        writers.insert(rank);
      }
    }
  }
  return writers;
}

/// Megatron's eight ranks, two by tensor parallelism (inner), four by data parallelism.
inline const Mesh kMegatron({4, 2}, {"dp", "tp"});

inline PlannedArray floats(std::string name, std::uint64_t count, Sharding sharding, std::uint32_t turn = 0) {
  return {std::move(name), DType::float32, {count}, std::move(sharding), turn};
}

/// Every element is written once, by a rank that holds it, and loads are what they should be.
inline void check_plan(const AssignmentPlan& plan) {
  std::vector<std::vector<Box>> written(plan.arrays().size());
  for (std::uint32_t rank = 0; rank < plan.ranks(); ++rank) {
    std::uint64_t bytes = 0;
    for (const WriteAssignment& assignment : plan.assignments(rank)) {
      const PlannedArray& array = plan.arrays()[assignment.array];
      const auto held_boxes = array.sharding.boxes(rank, array.shape);
      const bool is_held = std::any_of(held_boxes.begin(), held_boxes.end(), [&](const PlacedBox& placed) {
        return placed.box.contains(assignment.box);
      });
      ASSERT_TRUE(is_held) << rank << " " << array.name << " " << assignment.box;
      ASSERT_FALSE(assignment.box.is_empty());
      bytes += *byte_count(array.dtype, assignment.box.extents());
      written[assignment.array].push_back(assignment.box);
    }
    ASSERT_EQ(bytes, plan.bytes_by_rank()[rank]) << rank;
  }
  for (std::size_t i = 0; i < written.size(); ++i) {
    ASSERT_EQ(count_elements(written[i]), count_elements({Box::whole(plan.arrays()[i].shape)}))
        << plan.arrays()[i].name << " " << plan.arrays()[i].sharding.to_json();
  }
}

inline std::vector<PlannedArray> random_arrays(Dice& dice, std::uint32_t& ranks) {
  std::vector<PlannedArray> arrays;
  ranks = 1;
  for (std::size_t count = 1 + dice.below(5); arrays.size() < count;) {
    const Shape shape = random_shape(dice, 300);
    arrays.push_back({"a" + std::to_string(dice.next()), dice.one_in(2) ? DType::float32 : DType::bfloat16,
                      shape, random_sharding(dice, shape), static_cast<std::uint32_t>(dice.below(2))});
    ranks = std::max(ranks, arrays.back().sharding.ranks());
  }
  return arrays;
}

}  // namespace cairn::testing
