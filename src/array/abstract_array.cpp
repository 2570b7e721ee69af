// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cairn/array/array.hpp"
#include "cairn/base/error.hpp"

#include "array/internal/same_memory.hpp"

namespace cairn {

AbstractArray& AbstractArray::place_into(Array array) {
  if (array.shape() != shape) {
    throw Error(Errc::shape_mismatch, fmt::format("an array of shape {} placed into one of shape {}",
                                                  to_string(shape), to_string(array.shape())));
  }
  if (!array.is_mutable()) {
    throw Error(Errc::invalid_argument, "the destination of a load is read-only");
  }
  dtype = array.dtype();
  destination = std::move(array);
  return *this;
}

bool operator==(const AbstractArray& a, const AbstractArray& b) {
  return a.shape == b.shape && a.dtype == b.dtype && a.allows_narrowing == b.allows_narrowing &&
         is_same_memory(a.destination, b.destination);
}

}  // namespace cairn
