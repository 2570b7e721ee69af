// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <fmt/format.h>

#include "cairn/array/array.hpp"
#include "cairn/base/error.hpp"

#include "array/internal/require_within.hpp"
#include "array/internal/same_memory.hpp"

namespace cairn {

AbstractArray& AbstractArray::want(Box part) {
  require_within("box", part, shape);
  if (destination && destination->shape() != part.extents()) {
    throw Error(Errc::invalid_argument, fmt::format("box {} of an array whose destination has shape {}",
                                                    to_string(part), to_string(destination->shape())));
  }
  box = std::move(part);
  return *this;
}

AbstractArray& AbstractArray::place_into(Array array) {
  if (array.shape() != loaded_shape()) {
    throw Error(Errc::shape_mismatch,
                fmt::format("{} of shape {} placed into an array of shape {}", box ? "a box" : "an array",
                            to_string(loaded_shape()), to_string(array.shape())));
  }
  if (!array.is_mutable()) {
    throw Error(Errc::invalid_argument, "the destination of a load is read-only");
  }
  dtype = array.dtype();
  destination = std::move(array);
  return *this;
}

AbstractArray& AbstractArray::pad_and_crop(Shape to) {
  if (box) {
    require_within("requested box", *box, to);
  }
  if (destination && !box && destination->shape() != to) {
    throw Error(Errc::shape_mismatch, fmt::format("requested shape {}, but destination has shape {}",
                                                  to_string(to), to_string(destination->shape())));
  }
  shape = std::move(to);
  on_mismatch = ShapeMismatch::pad_and_crop;
  return *this;
}

bool operator==(const AbstractArray& a, const AbstractArray& b) {
  return a.shape == b.shape && a.dtype == b.dtype && a.box == b.box &&
         a.allows_narrowing == b.allows_narrowing && a.on_mismatch == b.on_mismatch &&
         is_same_memory(a.destination, b.destination);
}

}  // namespace cairn
