// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

#include "cairn/array/array_view.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"

// What the adapters of other libraries have in common.

namespace cairn::interop {

/// The strides of an array in elements, not bytes, for a library that addresses elements of type `dtype` on the host.
/// Those of extents of 0 and 1, which nobody follows, are 1.
///
/// `viewer` is what cannot view other arrays, for messages: "Eigen::Map".
/// Errors: Errc::dtype_mismatch when the elements are of another type; Errc::invalid_argument when the memory is not
///         the host's or is not aligned to `alignment`, or a stride is not a multiple of an element.
[[nodiscard]] Strides element_strides(const ArrayView& array, DType dtype, std::size_t alignment,
                                      std::string_view viewer);

/// Errors: Errc::shape_mismatch when `array` has not `rank` dimensions.
void require_rank(const ArrayView& array, std::size_t rank, std::string_view viewer);

/// Errors: Errc::shape_mismatch, always: the extents of `array` do not fit; `wanted` says what would.
[[noreturn]] void throw_other_extents(const ArrayView& array, std::string_view wanted,
                                      std::string_view viewer);

/// Errors: Errc::invalid_argument, always: `why` says what is wrong with the strides of `array`.
[[noreturn]] void throw_other_strides(const ArrayView& array, std::string_view why, std::string_view viewer);

/// Errors: Errc::invalid_argument when what `viewer` views has no strides, so that it is not an array.
void require_strided(bool is_strided, const Shape& shape, std::string_view viewer);

}  // namespace cairn::interop
