// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/array/layout.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/array/sharded_array.hpp"

namespace cairn {

/// A box of an array that is requested from a load.
struct WantedShard {
  Box box;
  /// Where the elements are loaded to; without one the load allocates.
  std::optional<Array> destination;
  std::uint32_t replica = 0;  ///< The replica number of the resulting shard.
};

/// Holds what a load asks for: these boxes of an array, whatever boxes it was written in. Only these need to
/// be stored.
///
/// Invariant: as ShardedArray; a load checks it.
/// Threads:   a value.
/// Example:   AbstractShardedArray wanted({8, 4}, DType::float32);  wanted.want(Box({0, 2}, {8, 2}));
struct AbstractShardedArray {
  AbstractShardedArray() = default;

  /// No boxes yet. `shape_value` is that of the whole array.
  AbstractShardedArray(Shape shape_value, DType dtype_value)
      : shape(std::move(shape_value)), dtype(dtype_value) {}

  /// The boxes of an array; its memory is not kept.
  explicit AbstractShardedArray(const ShardedArray& array);

  /// Appends a box.
  ///
  /// Errors: Errc::invalid_argument when it is not within `shape`.
  AbstractShardedArray& want(Box box, std::uint32_t replica = 0);

  /// Appends a box whose elements go to memory of the caller's, converted to the type of that memory: one for all
  /// boxes.
  ///
  /// Ownership: as AbstractArray::place_into.
  /// Errors:    as want; Errc::shape_mismatch when the memory has another shape than the box; Errc::dtype_mismatch when
  ///            that of another box is of another dtype; Errc::invalid_argument when it is read-only.
  AbstractShardedArray& place_into(Box box, Array destination, std::uint32_t replica = 0);

  AbstractShardedArray& place_into(Box box, MutableArrayView destination, std::uint32_t replica = 0) {
    return place_into(std::move(box), Array::borrow(std::move(destination)), replica);
  }

  Shape shape;
  DType dtype = DType::float32;  ///< Another type than the stored one asks for a cast.

  /// Permits casts that change values; see AbstractArray::allows_narrowing.
  bool allows_narrowing = false;

  /// As AbstractArray::on_mismatch, for each box.
  ShapeMismatch on_mismatch = ShapeMismatch::refuse;

  std::vector<WantedShard> shards;

  /// Where the boxes come from: what is loaded has it, too. May be null.
  std::shared_ptr<const Layout> layout;

  /// As AbstractArray::stored.
  std::shared_ptr<const StoredSlices> stored;

  /// Returns whether both ask for the same; destinations are the same when they are the same memory. Layouts
  /// do not count.
  friend bool operator==(const AbstractShardedArray& a, const AbstractShardedArray& b);
};

}  // namespace cairn
