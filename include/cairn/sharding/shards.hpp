// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cairn/array/abstract_sharded_array.hpp"
#include "cairn/array/array.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/array/sharded_array.hpp"
#include "cairn/sharding/sharding.hpp"

namespace cairn {

/// Returns what `rank` holds of an array of `shape`, as an array: `local` is its box. A rank that has nothing
/// gives an array of no elements.
///
/// Ownership: shares the memory of `local`.
/// Errors:    as Sharding::boxes; Errc::shape_mismatch when `local` has not the shape of the box;
///            Errc::invalid_argument when the rank holds several boxes.
[[nodiscard]] ShardedArray shard(const Sharding& sharding, std::uint32_t rank, Shape shape, Array local);

/// The same where a rank may hold several boxes: one array for each, in the order of Sharding::boxes.
///
/// Errors: also Errc::invalid_argument when there are more or fewer arrays than boxes; Errc::dtype_mismatch.
[[nodiscard]] ShardedArray shard(const Sharding& sharding, std::uint32_t rank, Shape shape, DType dtype,
                                 std::vector<Array> locals);

/// Returns what `rank` wants of an array when it is to be divided so. Where `array` has a destination, the
/// boxes go to their parts of it.
///
/// Errors: as Sharding::boxes.
[[nodiscard]] AbstractShardedArray wanted(const AbstractArray& array, const Sharding& sharding,
                                          std::uint32_t rank);

}  // namespace cairn
