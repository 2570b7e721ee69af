// SPDX-License-Identifier: Apache-2.0
#include "cairn/interop/strided.hpp"

#include <cstdint>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

namespace cairn::interop {

Strides element_strides(const ArrayView& array, DType dtype, std::size_t alignment, std::string_view viewer) {
  if (array.dtype() != dtype) {
    throw Error(Errc::dtype_mismatch,
                fmt::format("{} of {} cannot view an array of {}", viewer, dtype, array.dtype()));
  }
  if (!array.device().is_host()) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} cannot view memory of the device {}", viewer, to_string(array.device())));
  }
  const auto element_bytes = static_cast<std::int64_t>(bits(dtype) / 8);
  Strides strides(array.rank(), 1);
  for (std::size_t dimension = 0; dimension < array.rank(); ++dimension) {
    if (array.shape()[dimension] < 2) {
      continue;
    }
    if (array.strides()[dimension] % element_bytes != 0) {
      throw_other_strides(array, fmt::format("they are not multiples of elements of {} bytes", element_bytes),
                          viewer);
    }
    strides[dimension] = array.strides()[dimension] / element_bytes;
  }
  if (array.element_count() > 0 && reinterpret_cast<std::uintptr_t>(array.data()) % alignment != 0) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} cannot view an array of {} that is not aligned to {} bytes", viewer, dtype,
                            alignment));
  }
  return strides;
}

void require_rank(const ArrayView& array, std::size_t rank, std::string_view viewer) {
  if (array.rank() != rank) {
    throw_other_extents(array, fmt::format("rank {}", rank), viewer);
  }
}

void throw_other_extents(const ArrayView& array, std::string_view wanted, std::string_view viewer) {
  throw Error(Errc::shape_mismatch,
              fmt::format("{} of {} cannot view an array of shape {}", viewer, wanted, array.shape()));
}

void throw_other_strides(const ArrayView& array, std::string_view why, std::string_view viewer) {
  throw Error(Errc::invalid_argument,
              fmt::format("{} cannot view an array of shape {} with strides {} (bytes): {}", viewer,
                          array.shape(), array.strides(), why));
}

void require_strided(bool is_strided, const Shape& shape, std::string_view viewer) {
  if (!is_strided) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("{} of shape {}: its layout has no strides, so it is not an array", viewer, shape));
  }
}

}  // namespace cairn::interop
