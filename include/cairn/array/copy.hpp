// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cairn/array/array_view.hpp"

namespace cairn {

// The image of an array is its elements in row-major order without gaps: byte_count() bytes, the form in
// which files hold them. These functions move parts of the image, so that a large array streams through a
// small buffer.

/// Copies every element.
///
/// Shape:  equal; any strides. The arrays must not overlap.
/// Errors: Errc::shape_mismatch or Errc::dtype_mismatch when shapes or dtypes differ; Errc::invalid_argument
///         when the memory of one of them is not the host's.
void copy(const ArrayView& from, const MutableArrayView& to);

/// Copies the bytes [begin_byte, begin_byte + out.size()) of the image of `from` to `out`.
///
/// A contiguous array costs one memcpy; others one memcpy per longest contiguous run.
///
/// Units:  bytes; a range may begin and end inside an element.
/// Errors: Errc::invalid_argument when the range leaves the image or the memory is not the host's.
void copy_range(const ArrayView& from, std::uint64_t begin_byte, std::span<std::byte> out);

/// The inverse of copy_range: `in` becomes the bytes [begin_byte, begin_byte + in.size()) of the image of
/// `to`.
///
/// Units:  bytes; a range may begin and end inside an element.
/// Errors: Errc::invalid_argument when the range leaves the image or the memory is not the host's.
void scatter_range(std::span<const std::byte> in, std::uint64_t begin_byte, const MutableArrayView& to);

/// Copies the bytes [begin_byte, begin_byte + out.size()) of the image that `from` would have as `to`.
///
/// Units:  bytes of the type `to`; both ends lie between elements, and for packed types between bytes.
/// Errors: as copy_range and cast; Errc::invalid_argument when an end lies within an element.
void cast_range(const ArrayView& from, DType to, std::uint64_t begin_byte, std::span<std::byte> out,
                Narrowing narrowing = Narrowing::refused);

/// As scatter_range, for an image whose elements are of the type `from`.
///
/// Units:  bytes of the type `from`; both ends lie between elements, and for packed types between bytes.
/// Errors: as scatter_range and cast; Errc::invalid_argument when an end lies within an element.
void cast_scatter_range(std::span<const std::byte> in, DType from, std::uint64_t begin_byte,
                        const MutableArrayView& to, Narrowing narrowing = Narrowing::refused);

}  // namespace cairn
