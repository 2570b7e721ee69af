// SPDX-License-Identifier: Apache-2.0
#include "cairn/sharding/flat_range.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn {
namespace {

/// The box of the elements from `at` on that agree with `at` in the dimensions before `dimension`, are `count` along
/// it and whole behind it.
Box slab_at(const Box& box, const Shape& strides, std::uint64_t at, std::size_t dimension,
            std::uint64_t count) {
  Shape offsets = box.offsets();
  Shape extents = box.extents();
  for (std::size_t d = 0; d <= dimension; ++d) {
    offsets[d] += at / strides[d];
    at %= strides[d];
    extents[d] = d < dimension ? 1 : count;
  }
  return {std::move(offsets), std::move(extents)};
}

}  // namespace

std::vector<FlatPiece> boxes_of_flat_range(const Box& box, std::uint64_t begin, std::uint64_t end) {
  const std::optional<std::uint64_t> count = element_count(box.extents());
  if (!count || begin > end || end > *count) {
    throw Error(Errc::invalid_argument,
                fmt::format("box {} has no elements {} to {}", to_string(box), begin, end));
  }
  std::vector<FlatPiece> pieces;
  if (begin == end) {
    return pieces;
  }
  if (box.rank() == 0) {
    pieces.push_back({Box(), 0});
    return pieces;
  }
  Shape strides(box.rank(), 1);
  for (std::size_t d = box.rank() - 1; d > 0; --d) {
    strides[d - 1] = strides[d] * box.extents()[d];
  }
  // Rises from the innermost dimension to the outermost that can be taken whole, and comes down again.
  for (std::uint64_t at = begin; at < end;) {
    std::size_t d = 0;
    while (at % strides[d] != 0 || end - at < strides[d]) {
      ++d;
    }
    const std::uint64_t coordinate = at / strides[d] % box.extents()[d];
    const std::uint64_t taken = std::min(box.extents()[d] - coordinate, (end - at) / strides[d]);
    pieces.push_back({slab_at(box, strides, at, d, taken), at - begin});
    at += taken * strides[d];
  }
  return pieces;
}

}  // namespace cairn
