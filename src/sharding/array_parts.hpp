// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cairn/base/some_ranks.hpp"
#include "cairn/sharding/assignment_plan.hpp"

#include "sharding/rules.hpp"

namespace cairn::sharding_detail {

/// The different boxes of an array, and who holds each. For grids the same for arrays of all shapes.
struct Parts {
  struct Holder {
    std::uint32_t rank = 0;
    std::uint32_t replica = 0;
  };

  [[nodiscard]] std::size_t count() const noexcept { return firsts.size() - 1; }

  /// In the order of the ranks.
  [[nodiscard]] std::span<const Holder> holders_of(std::size_t part) const noexcept {
    return std::span(holders).subspan(firsts[part], firsts[part + 1] - firsts[part]);
  }

  std::vector<std::uint32_t> firsts = {0};  // By part, into `holders`.
  std::vector<Holder> holders;
  // For tables: the part by the number of the box (kNoPart: it has no elements, or is left out), and the reverse.
  std::vector<std::uint32_t> part_of_box;
  std::vector<std::uint32_t> box_of_part;
  bool leaves_out = false;  // Boxes of which no rank holds the main replica, where that is wanted.
};

/// The parts of one array with their sizes.
struct ArrayParts {
  std::shared_ptr<const Parts> parts;
  std::vector<std::uint64_t> elements;  // By part.
};

/// Works out the parts of arrays, and what arrays have in common only once.
///
/// Errors: those of AssignmentPlan.
class PartsFinder {
 public:
  PartsFinder(std::uint32_t ranks, bool is_covered_by_main)
      : ranks_(ranks), is_covered_by_main_(is_covered_by_main) {}

  [[nodiscard]] ArrayParts find(const sharding::PlannedArray& array);

 private:
  using LengthsKey = std::pair<std::size_t, std::uint64_t>;  // Dimension and extent.

  struct GridEntry {
    std::shared_ptr<const Parts> parts;
    std::map<LengthsKey, std::vector<std::uint64_t>> lengths;  // By piece.
  };

  [[nodiscard]] ArrayParts find_in_grid(const sharding::PlannedArray& array, const GridRule& rule);
  [[nodiscard]] GridEntry& entry_of(const sharding::PlannedArray& array, const GridRule& rule);

  std::uint32_t ranks_;
  bool is_covered_by_main_;
  std::map<const Rule*, GridEntry*> by_rule_;
  std::map<std::string, GridEntry> grids_;  // By what the sharding says.
};

/// Refuses a box that ranks hold, but none of them as main replica, where that is wanted.
[[noreturn]] void refuse_without_main(const sharding::PlannedArray& array, const Box& box,
                                      const SomeRanks& ranks);

/// Returns which ranks hold a part.
[[nodiscard]] SomeRanks ranks_of(const Parts& parts, std::size_t part);

/// The boxes of a part that have elements.
[[nodiscard]] std::vector<Box> boxes_of_part(const sharding::PlannedArray& array, const Parts& parts,
                                             std::uint32_t part);

}  // namespace cairn::sharding_detail
