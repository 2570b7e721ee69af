// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/base/device.hpp"

namespace cairn {

/// A range whose elements lie in memory that outlives the range object: an lvalue vector or std::array, any
/// std::span. A temporary vector is none, so a view of it does not compile.
template <class R>
concept BorrowableRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    std::ranges::borrowed_range<R> && ArrayElement<std::ranges::range_value_t<R>>;

/// As BorrowableRange, with elements that may be changed.
template <class R>
concept MutableBorrowableRange =
    BorrowableRange<R> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

/// Somebody else's memory, seen as an array: cheap to make and to copy, owns nothing.
///
/// Invariant: every element lies in memory that the maker of the view vouched for; the distances between
///            elements fit in 63 bits; arrays of packed types are contiguous.
/// Ownership: the memory must stay valid as long as the view and its copies are used.
/// Threads:   a value; reading through copies is safe as long as nobody writes the memory.
/// Example:   std::vector<float> weights(6);  ArrayView view(weights.data(), {2, 3}, DType::float32);
class ArrayView {
 public:
  /// No elements: shape [0] of uint8.
  ArrayView() : shape_{0}, strides_{1} {}

  /// A contiguous, row-major array.
  ///
  /// Errors: Errc::invalid_argument when the size does not fit in 63 bits, when the elements of a packed type
  ///         do not fill whole bytes, or when `data` is null though there are elements.
  ArrayView(const void* data, Shape shape, DType dtype, Device device = {});

  /// An array whose element [i, j, …] lies i * strides[0] + j * strides[1] + … bytes behind `data`. Strides are in
  /// bytes; strides_in_elements converts those of libraries that count elements.
  ///
  /// Errors: as above, and Errc::invalid_argument when the ranks differ, when the distance of two elements
  ///         does not fit in 63 bits, when the type is packed, or when neighbours overlap: a stride that is not 0
  ///         and less than an element.
  ArrayView(const void* data, Shape shape, DType dtype, Strides strides, Device device = {});

  /// All elements of a range, as an array of rank 1.
  template <BorrowableRange R>
  ArrayView(R&& values)  // NOLINT(google-explicit-constructor): lvalue ranges are arrays.
      : ArrayView(std::ranges::data(values), Shape{std::ranges::size(values)},
                  dtype_of<std::ranges::range_value_t<R>>()) {}

  [[nodiscard]] const std::byte* data() const noexcept { return data_; }

  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }

  [[nodiscard]] const Strides& strides() const noexcept { return strides_; }  ///< All 0 for packed types.

  [[nodiscard]] DType dtype() const noexcept { return dtype_; }

  [[nodiscard]] Device device() const noexcept { return device_; }

  [[nodiscard]] std::size_t rank() const noexcept { return shape_.size(); }

  [[nodiscard]] std::uint64_t element_count() const noexcept;

  /// The size of the elements, not of the memory from the first to the last of them.
  [[nodiscard]] std::uint64_t byte_count() const noexcept { return byte_count_; }

  /// Returns whether the elements lie in row-major order without gaps.
  [[nodiscard]] bool is_contiguous() const noexcept { return is_contiguous_; }

  /// The memory of a contiguous array.
  ///
  /// Errors: Errc::invalid_argument when the array is not contiguous.
  [[nodiscard]] std::span<const std::byte> bytes() const;

  /// The elements of a contiguous array.
  ///
  /// Errors: Errc::dtype_mismatch when `T` is not the type of the elements; Errc::invalid_argument when the
  ///         array is not contiguous or not aligned for `T`, or its memory is not the host's.
  template <ArrayElement T>
  [[nodiscard]] std::span<const T> as() const {
    check_access(dtype_of<T>(), alignof(T));
    return {reinterpret_cast<const T*>(data_), static_cast<std::size_t>(byte_count_) / sizeof(T)};
  }

  /// The part of the array that a box names.
  ///
  /// Errors: Errc::invalid_argument when the box is not within shape(), or the type is packed and the box is
  ///         not whole.
  [[nodiscard]] ArrayView part(const Box& box) const;

  /// The same elements with the dimensions in reverse order.
  ///
  /// Errors: Errc::invalid_argument when the type is packed and the rank exceeds 1.
  [[nodiscard]] ArrayView transposed() const;

 private:
  void check_access(DType wanted, std::size_t alignment) const;

  const std::byte* data_ = nullptr;
  Shape shape_;
  Strides strides_;
  std::uint64_t byte_count_ = 0;
  Device device_;
  DType dtype_ = DType::uint8;
  bool is_contiguous_ = true;
};

/// An ArrayView whose elements may be written.
///
/// Invariant: was made from memory that may be written.
/// Threads:   writing needs the exclusion that the memory itself needs.
class MutableArrayView : public ArrayView {
 public:
  MutableArrayView() = default;

  MutableArrayView(void* data, Shape shape, DType dtype, Device device = {})
      : ArrayView(data, std::move(shape), dtype, device) {}

  MutableArrayView(void* data, Shape shape, DType dtype, Strides strides, Device device = {})
      : ArrayView(data, std::move(shape), dtype, std::move(strides), device) {}

  template <MutableBorrowableRange R>
  MutableArrayView(R&& values)  // NOLINT(google-explicit-constructor): lvalue ranges are arrays.
      : ArrayView(values) {}

  // The casts give back what the constructors took away: this memory came in without const.
  [[nodiscard]] std::byte* data() const noexcept { return const_cast<std::byte*>(ArrayView::data()); }

  /// As ArrayView::bytes, writable.
  [[nodiscard]] std::span<std::byte> bytes() const { return {data(), ArrayView::bytes().size()}; }

  /// As ArrayView::as, writable.
  template <ArrayElement T>
  [[nodiscard]] std::span<T> as() const {
    const auto elements = ArrayView::as<T>();
    return {const_cast<T*>(elements.data()), elements.size()};
  }

  [[nodiscard]] MutableArrayView part(const Box& box) const { return MutableArrayView(ArrayView::part(box)); }

  [[nodiscard]] MutableArrayView transposed() const { return MutableArrayView(ArrayView::transposed()); }

 private:
  explicit MutableArrayView(ArrayView view) : ArrayView(std::move(view)) {}
};

/// Returns whether two arrays have the same dtype, shape and bits; so NaNs of one pattern are equal, 0.0 and
/// -0.0 are not.
///
/// Errors: Errc::invalid_argument when the memory of one of them is not the host's.
[[nodiscard]] bool is_identical(const ArrayView& a, const ArrayView& b);

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
