// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/array/layout.hpp"
#include "cairn/array/shape.hpp"

namespace cairn {

/// A box of an array that this process holds, with its elements.
struct Shard {
  Box box;     ///< In coordinates of the whole array.
  Array data;  ///< Has the shape box.extents(); on any device.
  /// Which of the copies this is, among all processes that hold the box; 0 is the main one.
  std::uint32_t replica = 0;

  bool operator==(const Shard&) const = default;
};

/// An array that no process needs to hold whole, and what this process holds of it: nothing, a box, or several.
///
/// Invariant: boxes lie within shape(); the data of each has its extents and dtype(). Boxes are equal (then they are
///            replicas of different numbers) or share no element, which a save checks.
/// Ownership: as Array: elements that shards borrow must stay valid as long as this object and its copies are used.
/// Threads:   a value.
/// Example:   ShardedArray lower({8, 4}, DType::float32, {{Box({4, 0}, {4, 4}), rows}});
class ShardedArray {
 public:
  /// No elements, and no shards: shape [0] of uint8.
  ShardedArray();

  /// `layout`: where the boxes come from, kept in checkpoints; may be null.
  ///
  /// Errors: naming the box. Errc::invalid_argument when it is not within `shape`; Errc::shape_mismatch and
  ///         Errc::dtype_mismatch when its data do not fit.
  ShardedArray(Shape shape, DType dtype, std::vector<Shard> shards = {},
               std::shared_ptr<const Layout> layout = nullptr);

  /// The shape of the whole array.
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }

  [[nodiscard]] DType dtype() const noexcept { return dtype_; }

  /// Moved out of a temporary, so that a loop over them does not outlive them.
  ///
  /// Ownership: the span is valid as long as this object.
  [[nodiscard]] std::span<const Shard> shards() const& noexcept { return shards_; }

  [[nodiscard]] std::vector<Shard> shards() && { return std::move(shards_); }

  /// Null when nobody said.
  [[nodiscard]] const std::shared_ptr<const Layout>& layout() const noexcept { return layout_; }

  /// Same shape, dtype and shards: boxes, replicas and bits, in order. Layouts do not count.
  friend bool operator==(const ShardedArray& a, const ShardedArray& b) {
    return a.shape_ == b.shape_ && a.dtype_ == b.dtype_ && a.shards_ == b.shards_;
  }

 private:
  Shape shape_;
  DType dtype_;
  std::vector<Shard> shards_;
  std::shared_ptr<const Layout> layout_;
};

}  // namespace cairn
