// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "cairn/array/array_view.hpp"

namespace cairn {

/// Memory that one load fills, and under which name errors speak of it.
struct Destination {
  Destination(std::string name_in, ArrayView view_in, std::uint64_t origin_in = 0)
      : name(std::move(name_in)), view(std::move(view_in)), origin(origin_in) {}

  std::string name;
  ArrayView view;
  std::uint64_t origin =
      0;  ///< Who names it, if others of the same may be the very same memory; 0: none may.
};

/// Refuses destinations that share a byte: what such a load left there would be chance. Those of one origin may be
/// the very same.
///
/// Exact for parts of one array, however they interleave. Takes time in n log n, and memory for each row of
/// the parts that do interleave.
/// Errors: Errc::invalid_argument, naming both, or the one whose strides put two of its own elements in one
///         place (a stride of zero does); also where rows interleave too finely to be compared.
void check_disjoint(std::span<const Destination> destinations);

/// Returns whether some elements of a view lie over others, but for those that a stride of 0 repeats. In time that does
/// not depend on the extents: it finds what two dimensions, or all together, have no room for, and never says so of a
/// view without such elements.
[[nodiscard]] bool overlaps_itself(const ArrayView& view);

}  // namespace cairn
