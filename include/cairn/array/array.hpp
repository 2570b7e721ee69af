// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "cairn/array/array_view.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"

namespace cairn {

/// An array and, where it has one, the owner of its memory.
///
/// A handle: copies of an Array share the elements, as with numpy; `clone` makes independent ones. Arrays
/// made from a vector, a std::span or `borrow` have no owner: their maker keeps the memory alive.
///
/// Invariant: view() is valid as long as owner() lives, or as long as the maker promised.
/// Threads:   a value; the elements need the exclusion that any shared memory needs.
/// Example:   Array weights = Array::zeros({2, 3}, DType::float32);  weights.data<float>()[0] = 1;
class Array {
 public:
  /// No elements: shape [0] of uint8.
  Array() = default;

  /// New memory for a contiguous, row-major array. What the elements hold is unspecified.
  ///
  /// The memory is page-aligned from 64 KiB on, else aligned to 64 bytes.
  ///
  /// Errors: Errc::invalid_argument when the size does not fit in 63 bits; ENOMEM and std::bad_alloc.
  Array(Shape shape, DType dtype);

  /// Borrows the elements of an lvalue vector, an array or a span; they may be changed through this Array
  /// unless they are const.
  ///
  /// Ownership: the elements must stay valid and in place as long as this Array and its copies are used.
  template <BorrowableRange R>
  Array(R&& values)  // NOLINT(google-explicit-constructor): lvalue ranges are arrays.
      : Array(borrow_range(values)) {}

  /// As Array(shape, dtype), with every bit zero.
  [[nodiscard]] static Array zeros(Shape shape, DType dtype);

  /// New memory that holds a contiguous copy of the elements.
  ///
  /// Errors: as Array(shape, dtype); Errc::invalid_argument when the memory is not the host's.
  [[nodiscard]] static Array copy_of(const ArrayView& view);

  /// Somebody's memory, kept alive by `owner`; nothing is copied. Read-only unless the view is mutable.
  ///
  /// Errors: Errc::invalid_argument when `owner` is null.
  [[nodiscard]] static Array share(ArrayView view, std::shared_ptr<const void> owner);
  [[nodiscard]] static Array share(MutableArrayView view, std::shared_ptr<const void> owner);

  /// Somebody's memory, nothing copied, kept alive by the caller. Read-only unless the view is mutable.
  ///
  /// Ownership: the memory must stay valid as long as the result and its copies are used.
  [[nodiscard]] static Array borrow(ArrayView view);
  [[nodiscard]] static Array borrow(MutableArrayView view);

  /// Takes over a container (a vector that is moved from, say) as an array of rank 1; nothing is copied.
  template <class Container>

  requires(!std::is_reference_v<Container> && MutableBorrowableRange<Container&>) [[nodiscard]] static Array
      adopt(Container&& values) {
    auto owner = std::make_shared<Container>(std::move(values));
    MutableArrayView view(*owner);
    return share(std::move(view), std::move(owner));
  }

  /// An independent, contiguous copy with memory of its own.
  [[nodiscard]] Array clone() const { return copy_of(view()); }

  /// The same elements in row-major order with another shape. Shares the memory.
  ///
  /// Errors: Errc::shape_mismatch when the number of elements differs; Errc::invalid_argument when the array
  ///         is not contiguous.
  [[nodiscard]] Array reshaped(Shape shape) const;

  /// The part of the array that a box names. Shares the memory.
  ///
  /// Errors: as ArrayView::part.
  [[nodiscard]] Array part(const Box& box) const { return {view_.part(box), owner_, is_mutable_}; }

  [[nodiscard]] const Shape& shape() const noexcept { return view_.shape(); }

  [[nodiscard]] DType dtype() const noexcept { return view_.dtype(); }

  [[nodiscard]] std::uint64_t element_count() const noexcept { return view_.element_count(); }

  [[nodiscard]] std::uint64_t byte_count() const noexcept { return view_.byte_count(); }

  [[nodiscard]] const ArrayView& view() const noexcept { return view_; }

  /// Returns whether the elements may be changed through this Array.
  [[nodiscard]] bool is_mutable() const noexcept { return is_mutable_; }

  /// Errors: Errc::invalid_argument when the array is read-only.
  [[nodiscard]] const MutableArrayView& mutable_view() const;

  /// The elements: `data<const float>()` to read, `data<float>()` to change them.
  ///
  /// Errors: as ArrayView::as; Errc::invalid_argument when `T` is not const and the array is read-only.
  template <ArrayElement T>
  [[nodiscard]] std::span<T> data() const {
    if constexpr (std::is_const_v<T>) {
      return view().as<std::remove_const_t<T>>();
    } else {
      return mutable_view().as<T>();
    }
  }

  /// Returns what keeps the memory alive; null when the array borrows it.
  [[nodiscard]] const std::shared_ptr<const void>& owner() const noexcept { return owner_; }

  /// As is_identical: dtype, shape and bits.
  friend bool operator==(const Array& a, const Array& b) { return is_identical(a.view_, b.view_); }

 private:
  Array(MutableArrayView view, std::shared_ptr<const void> owner, bool is_mutable)
      : view_(std::move(view)), owner_(std::move(owner)), is_mutable_(is_mutable) {}

  template <class R>
  static Array borrow_range(R& values) {
    if constexpr (MutableBorrowableRange<R&>) {
      return borrow(MutableArrayView(values));
    } else {
      return borrow(ArrayView(values));
    }
  }

  MutableArrayView view_;  // Written through only when is_mutable_.
  std::shared_ptr<const void> owner_;
  bool is_mutable_ = true;
};

class StoredSlices;

/// Says what a load does where an array has another shape on disk than is asked for.
enum class ShapeMismatch : std::uint8_t {
  refuse,  ///< Errc::shape_mismatch.
  /// Load what both have, from the beginning of each axis; all else is zeros. The number of axes must be the same.
  pad_and_crop,
};

/// Holds what a load asks for, and what metadata tells: an array without its elements.
///
/// Invariant: `destination`, when there is one, is mutable and has this dtype and the shape of what is loaded, as
///            loaded_shape() says; place_into sees to it.
/// Threads:   a value.
/// Example:   AbstractArray wanted(shape, DType::bfloat16);  wanted.place_into(my_weights);
struct AbstractArray {
  AbstractArray() = default;

  AbstractArray(Shape shape_value, DType dtype_value) : shape(std::move(shape_value)), dtype(dtype_value) {}

  /// The description of an array; its memory is not kept.
  explicit AbstractArray(const ArrayView& array) : AbstractArray(array.shape(), array.dtype()) {}

  /// Requests only a part of the array: what is loaded has its extents. Little more than its bytes is read from the
  /// files. A Box is made of offsets and extents, not of begin and end.
  ///
  /// Errors:  Errc::invalid_argument when it is not within `shape`, or a destination of another shape was given before.
  /// Example: wanted["embedding"].as_array().want(Box({100, 0}, {50, 1024}));  // Rows 100 to 149, all columns.
  AbstractArray& want(Box part);

  /// Requests an array of this shape, whatever the stored shape is: an embedding with more rows, for example. See
  /// ShapeMismatch.
  ///
  /// Errors:  Errc::shape_mismatch when a destination of another shape was given before; Errc::invalid_argument when a
  ///          requested box is not within the shape.
  /// Example: wanted["embedding"].as_array().pad_and_crop({50304, 1024});
  AbstractArray& pad_and_crop(Shape to);

  /// The extents of the box when there is one, else the shape.
  [[nodiscard]] const Shape& loaded_shape() const noexcept { return box ? box->extents() : shape; }

  /// Loads the elements into the caller's memory, converted to its dtype. After `want`: the elements of the box.
  ///
  /// Ownership: the memory must stay valid until the load has finished; that of an Array with an owner does. A load
  ///            refuses memory that two of its arrays share (Errc::invalid_argument).
  /// Errors:    Errc::shape_mismatch when the shapes differ; Errc::invalid_argument when the array is
  ///            read-only.
  AbstractArray& place_into(Array array);

  AbstractArray& place_into(MutableArrayView view) { return place_into(Array::borrow(std::move(view))); }

  Shape shape;                   ///< The whole array's, also where only a box is requested.
  DType dtype = DType::float32;  ///< Another type than the stored one asks for a cast.

  /// The part that is requested; empty: the whole array. Always empty in metadata.
  std::optional<Box> box;

  /// Permits casts that change values, such as float32 to bfloat16; see `cast`. Default: they are errors.
  bool allows_narrowing = false;

  /// What happens when the stored shape differs; the part of `box` outside the stored shape is filled with zeros.
  ShapeMismatch on_mismatch = ShapeMismatch::refuse;

  /// Where the elements are loaded to; without one the load allocates.
  std::optional<Array> destination;

  /// Set by metadata for arrays that were divided, among ranks or by a policy among files; null for others. Loads
  /// ignore it.
  std::shared_ptr<const StoredSlices> stored;

  /// Returns whether both ask for the same; destinations are the same when they are the same memory.
  friend bool operator==(const AbstractArray& a, const AbstractArray& b);
};

}  // namespace cairn
