// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "cairn/array/array.hpp"

namespace cairn {

/// What a load asks for, and what metadata tells: an array without its elements.
///
/// Invariant: `destination`, when there is one, is mutable and has this shape and dtype; place_into sees to it.
/// Threads:   a value.
/// Example:   AbstractArray wanted(shape, DType::bfloat16);  wanted.place_into(my_weights);
struct AbstractArray {
  AbstractArray() = default;

  AbstractArray(Shape shape_value, DType dtype_value) : shape(std::move(shape_value)), dtype(dtype_value) {}

  /// The description of an array; its memory is not kept.
  explicit AbstractArray(const ArrayView& array) : AbstractArray(array.shape(), array.dtype()) {}

  /// Asks for the elements in memory of the caller's, converted to the type of that memory.
  ///
  /// Ownership: the memory must stay valid until the load has finished; as an Array with an owner it does. A load
  ///            refuses memory that two of its arrays share (Errc::invalid_argument).
  /// Errors:    Errc::shape_mismatch when the shapes differ; Errc::invalid_argument when the array is
  ///            read-only.
  AbstractArray& place_into(Array array);

  AbstractArray& place_into(MutableArrayView view) { return place_into(Array::borrow(std::move(view))); }

  Shape shape;
  DType dtype = DType::float32;  ///< Another type than the stored one asks for a cast.

  /// Permits casts that change values, such as float32 to bfloat16; see `cast`. Default: they are errors.
  bool allows_narrowing = false;

  /// Where the elements shall go; without one the load allocates.
  std::optional<Array> destination;

  /// Whether both ask for the same; destinations are the same when they are the same memory.
  friend bool operator==(const AbstractArray& a, const AbstractArray& b);
};

}  // namespace cairn
