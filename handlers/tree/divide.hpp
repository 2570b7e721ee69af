// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/array/sharded_array.hpp"
#include "cairn/array_store/writer.hpp"
#include "cairn/core/save_context.hpp"
#include "cairn/sharding/share_plan.hpp"

namespace cairn::detail {

// How the arrays of a tree become parts of files: what is held becomes a plan of who writes what, that becomes parts that this
// rank writes, those become files. The plan is all that ranks must agree on; nothing here talks to them or does I/O.

/// An array of a tree, as this rank has it: one of both.
struct HeldArray {
  std::string path;
  const Array* whole = nullptr;  ///< Every rank has all of it; rank 0 writes it.
  const ShardedArray* sharded = nullptr;
};

/// What a rank writes of an array.
struct WrittenPart {
  std::size_t array = 0;  ///< Its number among those that are held.
  Box box;
  Array values;  ///< Of the extents of the box.
};

/// The sharded ones among the arrays, as a plan needs them. `ranks` is 1: what this process holds is all there is.
///
/// Errors: Errc::invalid_argument, naming path and box, when a box is held twice as the same replica.
[[nodiscard]] std::vector<PlannedArray> planned_arrays(std::span<const HeldArray> arrays);

/// What `rank` writes, in the order of the arrays: its shares of the sharded ones, and rank 0 all others.
///
/// Shape: the plan has the sharded arrays in their order.
[[nodiscard]] std::vector<WrittenPart> parts_of(std::span<const HeldArray> arrays, const SharePlan& plan,
                                                std::uint32_t rank);

/// Gives a writer what this process writes, in the files that the options of the save ask for.
///
/// Errors: Errc::incomplete_shards and Errc::overlapping_shards, naming path and boxes, when shards do not tile their array;
///         those of the policy and of its result, with its description before them; those of Writer::add.
void add_divided(array_store::Writer& writer, std::span<const HeldArray> arrays, const SaveContext& context);

}  // namespace cairn::detail
