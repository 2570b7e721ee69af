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

namespace cairn::sharding {

// The ranks of a job tell each other, as bytes, about arrays that they save together. Each says what it holds;
// that is merged on its way to rank 0, which makes the plan and answers each rank with its assignments. What a rule
// says about boxes is said by the rule, and once for all ranks that say the same. Messages come from this very
// program on other ranks; damaged ones are refused all the same.

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

/// Returns what `rank` says. `structure` is what all ranks must have alike, one thing a line ("'w': sharded
/// array of F32 [8, 4]"); it says in which order the arrays come, too, which are not named again.
[[nodiscard]] std::string encode_rank_boxes(std::uint32_t rank, std::string_view structure,
                                            std::span<const RankBoxes> rank_boxes);

/// Joins what some ranks say with what others say; where they have not the same structure, only which ranks have which.
///
/// Errors: Errc::malformed_metadata.
[[nodiscard]] std::string merge_rank_boxes(std::span<const std::string> texts);

/// The arrays of all ranks. `mine` is what the calling rank holds, in the same order. Two are the same array where no
/// rank says otherwise.
///
/// Errors: Errc::invalid_argument when ranks have not the same structure: names the first line that differs, and
///         which ranks have it how. As HeldArrays; Errc::malformed_metadata.
[[nodiscard]] std::vector<PlannedArray> decode_rank_boxes(std::string_view text,
                                                          std::span<const RankBoxes> mine,
                                                          std::uint32_t ranks);

/// Which arrays of a plan are further names of others.
[[nodiscard]] std::string encode_same(std::span<const PlannedArray> arrays);
/// Takes that from the front of a text.
///
/// Errors: Errc::malformed_metadata, also where it is not about that many arrays, or names one that is not before it.
[[nodiscard]] std::vector<std::optional<std::uint32_t>> take_same(std::string_view& text, std::size_t arrays);

/// Returns what a rank is to write, for a plan that has its arrays in the order of `mine`.
[[nodiscard]] std::string encode_assignments(std::span<const WriteAssignment> assignments);
/// Errors: Errc::malformed_metadata, also for an array that the rank does not hold or a box that is not within it.
[[nodiscard]] std::vector<WriteAssignment> decode_assignments(std::string_view text,
                                                              std::span<const RankBoxes> mine);

}  // namespace cairn::sharding
