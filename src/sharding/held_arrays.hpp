// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/layout.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/sharding/assignment_plan.hpp"

namespace cairn {

/// Puts together what each rank of a job says it holds, where that is not known by a rule.
///
/// In memory a box takes 4 + 16 bytes for each dimension: 200 MB for 10,000 ranks with 500 matrices.
/// Threads: not safe.
class HeldArrays {
 public:
  HeldArrays();
  ~HeldArrays();
  HeldArrays(HeldArrays&&) noexcept;
  HeldArrays& operator=(HeldArrays&&) noexcept;

  /// `rank` holds these boxes of an array. Ranks come in ascending order; one that holds nothing may be left out.
  ///
  /// Errors: all name the array and the ranks. Errc::shape_mismatch and Errc::dtype_mismatch when the rank that spoke
  ///         of it first said otherwise; Errc::invalid_argument when a box is not within the shape, or ranks are not
  ///         in order.
  void add(std::uint32_t rank, std::string_view name, DType dtype, const Shape& shape,
           std::span<const PlacedBox> boxes);

  /// The arrays in the order in which they came first, each with a table of `ranks` ranks. This object is empty then.
  ///
  /// Errors: Errc::invalid_argument when `ranks` is 0, above kMaxRanks, or not above those that were added.
  [[nodiscard]] std::vector<sharding::PlannedArray> finish(std::uint32_t ranks);

 private:
  struct State;

  std::unique_ptr<State> state_;
};

}  // namespace cairn
