// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "cairn/array/shape.hpp"

namespace cairn {

/// A rectangular part of a global array: [offsets[i], offsets[i] + extents[i]) along each dimension.
///
/// Invariant: offsets and extents have the same rank, and no end exceeds 2^64 - 1.
class Box {
 public:
  Box() = default;

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

  /// Whether some extent is zero: the box has no element. A box of rank 0 has one.
  [[nodiscard]] bool is_empty() const noexcept;

  /// Whether the box is all of an array of that shape.
  [[nodiscard]] bool is_whole(const Shape& shape) const noexcept;

  /// Whether the box lies inside an array of that shape; false when the ranks differ.
  [[nodiscard]] bool is_within(const Shape& shape) const noexcept;

  /// Whether every dimension of `inner` lies inside this box; false when the ranks differ.
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
