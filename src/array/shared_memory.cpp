// SPDX-License-Identifier: Apache-2.0
#include "cairn/array/shared_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>

#include "cairn/base/error.hpp"

#include "array/internal/overlap.hpp"

namespace cairn {

ByteRange range_of(const ArrayView& view) {
  ByteRange range{view.data(), view.data()};
  if (view.is_contiguous() || view.byte_count() == 0) {
    range.end += view.byte_count();
    return range;
  }
  range.end += bits(view.dtype()) / 8;  // Packed arrays are contiguous.
  for (std::size_t i = 0; i < view.rank(); ++i) {
    const std::int64_t reach = view.strides()[i] * static_cast<std::int64_t>(view.shape()[i] - 1);
    (reach < 0 ? range.begin : range.end) += reach;
  }
  return range;
}

bool is_same_memory(const ArrayView& a, const ArrayView& b) {
  return a.data() == b.data() && a.device() == b.device() && a.shape() == b.shape() &&
         a.dtype() == b.dtype() && a.strides() == b.strides();
}

bool ArrayMemory::is_before(const Range& a, const Range& b) noexcept {
  const auto place = [](const Range& range) {
    return std::tuple(range.device.kind, range.device.index,
                      reinterpret_cast<std::uintptr_t>(range.bytes.begin));
  };
  return place(a) < place(b);
}

void ArrayMemory::add(std::size_t array, const ArrayView& view) {
  if (view.byte_count() > 0) {
    ranges_.push_back({view.device(), range_of(view), array});
  }
}

std::vector<std::size_t> ArrayMemory::take_meeting() {
  std::vector<Range> ranges = std::exchange(ranges_, {});
  if (!std::is_sorted(ranges.begin(), ranges.end(), is_before)) {
    std::sort(ranges.begin(), ranges.end(), is_before);
  }
  std::vector<std::size_t> arrays;
  const Range* farthest = nullptr;  // Of those before it the one that ends last.
  for (const Range& range : ranges) {
    const bool is_apart = farthest == nullptr || farthest->device != range.device ||
                          std::less_equal<>()(farthest->bytes.end, range.bytes.begin);
    if (!is_apart && farthest->array != range.array) {
      arrays.push_back(farthest->array);
      arrays.push_back(range.array);
    }
    if (is_apart || std::less<>()(farthest->bytes.end, range.bytes.end)) {
      farthest = &range;
    }
  }
  std::sort(arrays.begin(), arrays.end());
  arrays.erase(std::unique(arrays.begin(), arrays.end()), arrays.end());
  return arrays;
}

std::string find_overlap(std::span<const NamedView> arrays) {
  std::vector<Destination> memory;
  memory.reserve(arrays.size());
  for (const NamedView& array : arrays) {
    memory.emplace_back(array.name, array.view);
  }
  try {
    check_disjoint(memory);
  } catch (const Error& error) {
    return error.detail();
  }
  return {};
}

}  // namespace cairn
