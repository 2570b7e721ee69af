// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cairn/sharding/assignment_plan.hpp"

#include "sharding/internal/rank_leaves.hpp"
#include "sharding/rank_message.hpp"

namespace cairn::sharding_detail {

/// Stands in an answer in place of assignments, none of which has so few bytes.
inline constexpr std::string_view kAllThatYouHold = "*";

/// Puts together the leaves of all ranks of a job, at rank 0. Each leaf has a number, and each array in parts one among
/// these; a rank knows them by other numbers, its own.
///
/// Errors: those of plan_answers, from every method.
class JobLeaves {
 public:
  // outlives: `text` is valid as long as this object.
  JobLeaves(std::string_view text, std::uint32_t ranks);

  /// The arrays in parts, by their numbers. Called once.
  [[nodiscard]] std::vector<sharding::PlannedArray> take_arrays();

  /// The number of each rank's group; empty where all are in one.
  [[nodiscard]] std::vector<std::uint32_t> group_of_rank() const;

  /// How many bytes each rank has in memory of the arrays that it writes alone.
  [[nodiscard]] std::vector<std::uint64_t> alone_bytes() const;

  /// What rank 0 answers each rank, for a plan of these arrays.
  [[nodiscard]] std::vector<std::string> answers(const sharding::AssignmentPlan& plan) const;

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  /// A leaf that some rank brings.
  struct Known {
    Leaf leaf;
    std::uint32_t first = 0;      // The first part that has it: its lowest rank writes it.
    std::uint32_t last = kNone;   // The last part that has it.
    std::uint32_t parts = 0;      // How many have it.
    std::uint32_t array = kNone;  // Its number among arrays in parts.
    bool is_written = true;       // An empty map is not where other ranks have something in it.
  };

  /// Ranks that bring the same leaves.
  struct Part {
    const Structure* said = nullptr;
    std::uint32_t lowest = UINT32_MAX;              // Of its ranks.
    std::vector<std::uint32_t> leaves;              // In the order of its ranks.
    std::vector<std::uint32_t> arrays;              // The same, of those in parts.
    std::vector<std::vector<std::uint32_t>> rules;  // By group of the structure and own array; 0: none.
  };

  void add_part(const Structure& said);
  void add_leaves(std::uint32_t part_number);
  void check_containers();
  [[nodiscard]] bool has_leaf(const Part& part, std::uint32_t leaf) const;
  [[noreturn]] void refuse_kinds(std::uint32_t leaf, std::uint32_t part_number, const Leaf& other) const;
  [[noreturn]] void refuse_below(std::uint32_t above, std::uint32_t below) const;
  [[nodiscard]] std::vector<std::uint32_t> decode_rules(std::string_view rules, std::size_t arrays);
  [[nodiscard]] std::size_t ranks_in(std::uint32_t rule, const Part& part) const;
  [[nodiscard]] std::vector<std::uint32_t> rules_of_arrays();
  [[nodiscard]] std::vector<sharding::PlannedArray> tables(const std::vector<std::uint32_t>& rules) const;
  [[nodiscard]] std::vector<std::optional<std::uint32_t>> same_arrays() const;
  [[nodiscard]] std::string same_in(const Part& part, const sharding::AssignmentPlan& plan,
                                    const std::vector<std::uint32_t>& own_number) const;
  [[nodiscard]] std::vector<std::uint32_t> common_of(const Part& part) const;
  [[nodiscard]] std::vector<std::uint32_t> written_of(std::uint32_t part_number) const;
  [[nodiscard]] std::string arrays_of_others() const;

  const RankMessage message_;
  const std::uint32_t ranks_;
  std::vector<Part> parts_;  // By their lowest ranks.
  std::vector<Known> leaves_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;  // Of leaves, by path.
  std::uint32_t arrays_ = 0;
  std::vector<Sharding> rules_;  // The different ones; their numbers are counted from 1.
  std::unordered_map<std::string_view, std::uint32_t> rule_numbers_;  // By what they say.
};

}  // namespace cairn::sharding_detail
