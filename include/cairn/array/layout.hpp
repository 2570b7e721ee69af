// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/array/shape.hpp"
#include "cairn/base/hash.hpp"

namespace cairn {

/// A box that a rank holds, and which of its copies that is.
struct PlacedBox {
  Box box;
  std::uint32_t replica = 0;  ///< Among all ranks that hold this box; 0 is the main one.

  bool operator==(const PlacedBox&) const = default;
};

/// How an array is divided among the ranks of a job, as far as arrays need to know; `Sharding` is what implements it.
///
/// Threads: a value that does not change; every method may be called from any thread.
class Layout {
 public:
  virtual ~Layout() = default;

  /// How many ranks it speaks of: 0 to ranks() - 1.
  [[nodiscard]] virtual std::uint32_t ranks() const noexcept = 0;

  /// Returns what `rank` holds of an array of `shape`. Boxes of no elements say that the rank takes part, but
  /// has nothing.
  ///
  /// Errors: Errc::invalid_argument when the layout has no such rank, or does not fit the shape.
  [[nodiscard]] virtual std::vector<PlacedBox> boxes(std::uint32_t rank, const Shape& shape) const = 0;

  /// Equal for equal layouts, on every machine: of to_json().
  [[nodiscard]] virtual Hash128 hash() const = 0;

  /// Returns what a checkpoint keeps of it: JSON on one line.
  [[nodiscard]] virtual std::string to_json() const = 0;

 protected:
  Layout() = default;
  Layout(const Layout&) = default;
  Layout& operator=(const Layout&) = default;
};

}  // namespace cairn
