// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cairn/array/dtype.hpp"

namespace cairn {

/// Returns whether every value of `from` is a value of `to`: infinities and negative zero count as values,
/// NaN as one value.
///
/// bfloat16 widens to float32, int32 to float64, bool to every type with 0 and 1; int64 widens to no float.
[[nodiscard]] bool is_widening(DType from, DType to) noexcept;

/// Converts elements. What is not widening needs `Narrowing::allowed`, and is done so:
///
/// | to | value that does not fit |
/// |---|---|
/// | any float | rounded once to nearest, ties to even; NaN stays NaN, with its sign if the type has one |
/// | float16, bfloat16, float32, float8_e5m2 | overflow becomes infinity |
/// | float8_e4m3, float8_e4m3fnuz, float8_e5m2fnuz | overflow and infinity become NaN |
/// | float8_e8m0 | zero, negative values, overflow and infinity become NaN; underflow becomes 2^-127 |
/// | float6_e2m3, float6_e3m2, float4 | overflow, infinity: the largest of that sign; NaN becomes 0 |
/// | integer from float | fraction cut off, then saturated; NaN becomes 0 |
/// | integer from integer | saturated |
/// | boolean | everything but zero is true, so NaN is |
/// | complex64 | the real part as float32, the imaginary part 0; of complex128 both parts as float32 |
/// | complex128 | the real part as float64, the imaginary part 0 |
///
/// A complex type to a real one is refused even when narrowing is allowed: it would drop a whole part of the data. A
/// boolean byte that is neither 0 nor 1 counts as 1. Equal types are copied bit for bit. All this is so in whatever
/// mode the thread computes: rounded elsewhere, or with subnormals taken for zero, as -ffast-math has it.
///
/// Units:  elements; `in` and `out` hold equally many, whole bytes of them. They must not overlap. No
///         alignment is needed.
/// Errors: Errc::unsafe_cast when the cast is not widening and narrowing is refused, and for complex types as
///         above; Errc::invalid_argument when the sizes do not match or a dtype is none of the types.
/// Source: IEEE 754-2019 §4.3.1; OCP 8-bit Floating Point 1.0 §5; OCP Microscaling Formats 1.0 §5.
void cast(std::span<const std::byte> in, DType from, std::span<std::byte> out, DType to,
          Narrowing narrowing = Narrowing::refused);

}  // namespace cairn
