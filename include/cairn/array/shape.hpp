// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cairn/array/dtype.hpp"

namespace cairn {

/// The most dimensions that an array has.
inline constexpr std::size_t kMaxRank = 64;

namespace detail {
/// Errors: Errc::invalid_argument when `rank` exceeds kMaxRank.
void check_rank(std::size_t rank);
}  // namespace detail

/// One number per dimension of an array, outermost first; up to six need no allocation.
///
/// Invariant: size() <= kMaxRank.
/// Threads:   a value; moving from it leaves it empty.
/// Example:   Shape shape{2, 3};
template <class T>
class Dimensions {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  Dimensions() = default;

  Dimensions(std::initializer_list<T> values) : Dimensions(std::span<const T>(values)) {}

  /// Errors: Errc::invalid_argument when there are more than kMaxRank values.
  explicit Dimensions(std::span<const T> values) : Dimensions(values.size(), T{}) {
    std::copy(values.begin(), values.end(), begin());
  }

  /// `rank` dimensions that all have `value`.
  Dimensions(std::size_t rank, T value) : rank_(rank) {
    if (rank > kInlineRank) {
      detail::check_rank(rank);
      heap_ = std::make_unique<T[]>(rank);
    }
    std::fill(begin(), end(), value);
  }

  Dimensions(const Dimensions& other) : rank_(other.rank_), inline_(other.inline_) {
    if (other.heap_) {
      heap_ = std::make_unique<T[]>(rank_);
      std::copy(other.begin(), other.end(), begin());
    }
  }

  Dimensions(Dimensions&& other) noexcept
      : rank_(std::exchange(other.rank_, 0)), inline_(other.inline_), heap_(std::move(other.heap_)) {}

  Dimensions& operator=(Dimensions other) noexcept {
    rank_ = other.rank_;
    inline_ = other.inline_;
    heap_ = std::move(other.heap_);
    return *this;
  }

  ~Dimensions() = default;

  [[nodiscard]] std::size_t size() const noexcept { return rank_; }

  [[nodiscard]] bool empty() const noexcept { return rank_ == 0; }

  [[nodiscard]] T* begin() noexcept { return heap_ ? heap_.get() : inline_.data(); }

  [[nodiscard]] T* end() noexcept { return begin() + rank_; }

  [[nodiscard]] const T* begin() const noexcept { return heap_ ? heap_.get() : inline_.data(); }

  [[nodiscard]] const T* end() const noexcept { return begin() + rank_; }

  /// The number of one dimension, which must be below size(): it is not checked.
  T& operator[](std::size_t dimension) noexcept { return begin()[dimension]; }

  const T& operator[](std::size_t dimension) const noexcept { return begin()[dimension]; }

  friend bool operator==(const Dimensions& a, const Dimensions& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  static constexpr std::size_t kInlineRank = 6;

  std::size_t rank_ = 0;
  std::array<T, kInlineRank> inline_{};
  std::unique_ptr<T[]> heap_;
};

/// The extents of an array; rank 0 is a scalar, which has one element.
using Shape = Dimensions<std::uint64_t>;

/// The distance in bytes from one element to the next along each dimension; may be zero or negative.
using Strides = Dimensions<std::int64_t>;

/// The number of elements, or nothing when the product of the extents that are not zero exceeds 2^63 - 1.
///
/// Zeros do not hide the other extents, so that strides can always be computed.
[[nodiscard]] std::optional<std::uint64_t> element_count(const Shape& shape) noexcept;

/// The size in bytes of a contiguous array, or nothing when it exceeds 2^63 - 1, when the elements of a
/// packed type do not fill whole bytes, or when `dtype` is none of the types.
[[nodiscard]] std::optional<std::uint64_t> byte_count(DType dtype,
                                                      std::span<const std::uint64_t> shape) noexcept;
[[nodiscard]] inline std::optional<std::uint64_t> byte_count(DType dtype, const Shape& shape) noexcept {
  return byte_count(dtype, std::span<const std::uint64_t>(shape));
}

/// As byte_count, for shapes that were read from outside: `array` names the culprit.
///
/// Errors: Errc::malformed_metadata where byte_count returns nothing.
[[nodiscard]] std::uint64_t checked_byte_count(std::string_view array, DType dtype, const Shape& shape);

/// The strides of a contiguous, row-major array of that shape.
///
/// Units:  bytes; for packed types bits would be needed, and all strides are 0.
/// Errors: Errc::invalid_argument where byte_count returns nothing.
[[nodiscard]] Strides row_major_strides(DType dtype, const Shape& shape);

/// The strides of an array whose strides count elements, as those of torch, DLPack, mdspan, Eigen and Kokkos do.
///
/// Units:   `elements` in elements, the result in bytes.
/// Errors:  Errc::invalid_argument where one does not fit in 63 bits, or the type is packed.
/// Example: ArrayView(rows, {2, 3}, DType::float64, strides_in_elements(DType::float64, {4, 1}))
[[nodiscard]] Strides strides_in_elements(DType dtype, const Strides& elements);

/// "[2, 3]"; a scalar is "[]".
[[nodiscard]] std::string to_string(const Shape& shape);
[[nodiscard]] std::string to_string(const Strides& strides);
std::ostream& operator<<(std::ostream& out, const Shape& shape);
std::ostream& operator<<(std::ostream& out, const Strides& strides);

/// A rectangular part of a global array: [offsets[i], offsets[i] + extents[i]) along each dimension.
///
/// Invariant: offsets and extents have the same rank, and no end exceeds 2^64 - 1.
class Box {
 public:
  Box() = default;

  /// Where it begins, and how large it is: Box({100, 0}, {50, 64}) has rows 100 to 149.
  ///
  /// Errors: Errc::invalid_argument when the ranks differ or an end does not fit in 64 bits.
  Box(Shape offsets, Shape extents);

  /// The box that is all of an array.
  [[nodiscard]] static Box whole(const Shape& shape);

  [[nodiscard]] const Shape& offsets() const noexcept { return offsets_; }

  [[nodiscard]] const Shape& extents() const noexcept { return extents_; }

  [[nodiscard]] std::size_t rank() const noexcept { return offsets_.size(); }

  [[nodiscard]] std::uint64_t begin(std::size_t dimension) const noexcept { return offsets_[dimension]; }

  [[nodiscard]] std::uint64_t end(std::size_t dimension) const noexcept {
    return offsets_[dimension] + extents_[dimension];
  }

  /// Returns whether some extent is zero: the box has no element. A box of rank 0 has one.
  [[nodiscard]] bool is_empty() const noexcept;

  /// Returns whether the box is all of an array of that shape.
  [[nodiscard]] bool is_whole(const Shape& shape) const noexcept;

  /// Returns whether the box lies inside an array of that shape; false when the ranks differ.
  [[nodiscard]] bool is_within(const Shape& shape) const noexcept;

  /// Returns whether every dimension of `inner` lies inside this box; false when the ranks differ.
  [[nodiscard]] bool contains(const Box& inner) const noexcept;

  bool operator==(const Box&) const = default;

 private:
  Shape offsets_;
  Shape extents_;
};

/// The elements that two boxes share, or nothing when there are none or the ranks differ.
[[nodiscard]] std::optional<Box> intersect(const Box& a, const Box& b);

/// "[0:2, 3:6]".
[[nodiscard]] std::string to_string(const Box& box);
std::ostream& operator<<(std::ostream& out, const Box& box);

}  // namespace cairn
