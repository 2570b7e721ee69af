// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/layout.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/sharding/assignment_plan.hpp"
#include "cairn/sharding/sharding.hpp"

namespace cairn {

namespace sharding_detail {
struct Leaf;
}  // namespace sharding_detail

}  // namespace cairn

namespace cairn::sharding {

// The ranks of a job tell each other, as bytes, which leaves they bring to a save, and what they hold of arrays that
// lie in parts. That is merged on its way to rank 0, which makes the plan and answers each rank with what it writes.
// What a rule says about boxes is said by the rule, and once for all ranks that say the same. Messages come from this
// very program on other ranks; damaged ones are refused all the same.

/// Lists the leaves of a rank in their order, as its message has them.
class LeafList {
 public:
  /// Adds a value that is not an array; `kind` is for messages: "integer".
  void add_value(std::string_view path, std::string_view kind);
  void add_empty_map(std::string_view path);
  /// Adds a list of so many elements, which are leaves of their own.
  void add_list(std::string_view path, std::uint64_t size);
  /// Adds an array that one rank writes alone.
  void add_array(std::string_view path, DType dtype, const Shape& shape);
  /// Adds an array of which ranks hold parts: the next of RankLeaves::boxes.
  void add_array_in_parts(std::string_view path, DType dtype, const Shape& shape);

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// The path of one of them.
  ///
  /// Time:   linear in the leaves before it.
  /// Errors: Errc::malformed_metadata when there are not so many.
  [[nodiscard]] std::string path(std::size_t number) const;
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  void add(const sharding_detail::Leaf& leaf);

  std::string text_;
  std::size_t size_ = 0;
};

/// Holds what a rank holds of an array: boxes, each once.
struct RankBoxes {
  std::string name;
  DType dtype = DType::float32;
  Shape shape;
  std::vector<PlacedBox> boxes;
  std::optional<Sharding> rule;  ///< No table, and gives just these boxes for the rank.
  /// The number of the first array that may be the same one for all that this rank knows: the same memory, or it
  /// holds nothing of both.
  std::optional<std::uint32_t> same_as = std::nullopt;
};

/// Holds what a rank says of what it brings to a save.
struct RankLeaves {
  std::uint32_t rank = 0;
  RankPaths paths = RankPaths::same;
  std::vector<std::uint32_t>
      group;  ///< The ranks of its group, itself included; empty: all. See PlanOptions.
  LeafList leaves;
  std::vector<RankBoxes> boxes;  ///< Of the leaves that are arrays in parts, in their order.
};

/// Returns what a rank says.
///
/// Errors: Errc::invalid_argument when the rank is not in its group.
[[nodiscard]] std::string encode_rank_leaves(const RankLeaves& mine);

/// Joins what some ranks say with what others say. Where leaves must be the same and are not, there is only which ranks
/// have which.
///
/// Errors: Errc::malformed_metadata; Errc::invalid_argument when some ranks join their leaves and others do not.
[[nodiscard]] std::string merge_rank_leaves(std::span<const std::string> texts);

/// Makes the plan of what all ranks bring, whose arrays have the paths as names. Returns what rank 0 answers each rank.
/// Of the options it sets `group_of_rank` and `alone_bytes` itself.
///
/// Errors: all name paths and ranks. Errc::invalid_argument when ranks do not bring the same leaves: names the first
///         that differs; when a leaf lies below another one, or is brought twice by one rank; when groups contradict
///         each other. Errc::shape_mismatch, Errc::dtype_mismatch and Errc::type_mismatch when ranks that join their
///         leaves have different ones under one path. Those of AssignmentPlan; Errc::malformed_metadata.
[[nodiscard]] std::vector<std::string> plan_answers(std::string_view gathered, std::uint32_t ranks,
                                                    PlanOptions options);

/// Holds what a rank writes.
struct RankAssignments {
  std::vector<WriteAssignment>
      assignments;  ///< Of its arrays in parts, by their numbers among its own, sorted.
  /// Of each of these arrays the one of which it is another name.
  std::vector<std::optional<std::uint32_t>> same_as;
  /// Where ranks join their leaves: the numbers of the others that it writes. Otherwise rank 0 writes all of these.
  std::vector<std::uint32_t> leaves;
  /// Where ranks join their leaves: the numbers of those that all ranks have, in one order on all ranks.
  std::vector<std::uint32_t> common;
  /// The same, for rank 0: the paths of all arrays that it does not have.
  std::vector<std::string> arrays_of_others;
};

/// Takes apart what rank 0 has answered.
///
/// Errors: Errc::malformed_metadata, also for an array or leaf that the rank does not have, and for a box that is not
///         within its array.
[[nodiscard]] RankAssignments decode_answer(std::string_view answer, const RankLeaves& mine);

}  // namespace cairn::sharding
