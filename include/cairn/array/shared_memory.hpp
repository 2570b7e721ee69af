// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/array_view.hpp"
#include "cairn/base/device.hpp"

namespace cairn {

/// Memory from one byte to the last before another.
struct ByteRange {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
};

/// The memory from the first byte of an array to its last one; others may have elements between, where it has strides.
[[nodiscard]] ByteRange range_of(const ArrayView& view);

/// Returns whether both are the same elements in the same memory.
[[nodiscard]] bool is_same_memory(const ArrayView& a, const ArrayView& b);

/// Finds out which of many arrays may share memory. Of most sets no two do, and all that it costs is to sort their
/// addresses.
///
/// Threads: not safe.
class ArrayMemory {
 public:
  /// Adds memory of the array with that number, which may have several.
  void add(std::size_t array, const ArrayView& view);

  /// The arrays that may share memory with another, in order. It is empty then.
  [[nodiscard]] std::vector<std::size_t> take_meeting();

 private:
  struct Range {
    Device device;
    ByteRange bytes;
    std::size_t array = 0;
  };

  static bool is_before(const Range& a, const Range& b) noexcept;

  std::vector<Range> ranges_;
};

/// An array, and what it is called in messages.
struct NamedView {
  std::string name;
  ArrayView view;
};

/// Says which two of the arrays share a byte, as an error of a load into them would; empty where none do.
[[nodiscard]] std::string find_overlap(std::span<const NamedView> arrays);

}  // namespace cairn
