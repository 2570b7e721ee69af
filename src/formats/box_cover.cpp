// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/box_cover.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

namespace cairn::formats {
namespace {

std::uint64_t element_count_of(std::string_view array, const Shape& shape) {
  const std::optional<std::uint64_t> count = element_count(shape);
  if (!count) {
    throw Error(Errc::malformed_metadata, fmt::format("'{}': shape {} has too many elements", array, shape));
  }
  return *count;
}

/// The dimension along which the boxes begin at the most places: a sweep along it looks at the fewest pairs.
std::size_t sweep_dimension(std::span<const Box* const> boxes, std::size_t rank) {
  std::size_t best = 0;
  std::ptrdiff_t best_count = 0;
  std::vector<std::uint64_t> begins(boxes.size());
  for (std::size_t d = 0; d < rank; ++d) {
    std::transform(boxes.begin(), boxes.end(), begins.begin(), [d](const Box* box) { return box->begin(d); });
    std::sort(begins.begin(), begins.end());
    const auto count = std::unique(begins.begin(), begins.end()) - begins.begin();
    if (count > best_count) {
      best = d;
      best_count = count;
    }
  }
  return best;
}

/// Boxes that are not empty, and what to say of them.
struct Filled {
  std::string_view array;
  std::vector<const Box*> boxes;
  const Box* first;  ///< Of all boxes: tells their numbers.
  const BoxOrigin& origin;

  [[noreturn]] void refuse(const Box* a, const Box* b) const {
    throw Error(Errc::overlapping_shards,
                fmt::format("'{}': slices {} and {} overlap", array, described(a), described(b)));
  }

  [[nodiscard]] std::string described(const Box* box) const {
    return to_string(*box) + (origin ? origin(static_cast<std::size_t>(box - first)) : "");
  }
};

void check_disjoint(Filled& filled, std::size_t dimension) {
  std::vector<const Box*>& boxes = filled.boxes;
  std::sort(boxes.begin(), boxes.end(),
            [dimension](const Box* a, const Box* b) { return a->begin(dimension) < b->begin(dimension); });
  std::vector<const Box*> open;  // Boxes that the sweep has entered and not left.
  for (const Box* box : boxes) {
    std::erase_if(open, [&](const Box* other) { return other->end(dimension) <= box->begin(dimension); });
    for (const Box* other : open) {
      if (intersect(*box, *other)) {
        filled.refuse(other, box);
      }
    }
    open.push_back(box);
  }
}

}  // namespace

void check_cover(std::string_view array, const Shape& shape, std::span<const Box> boxes,
                 const BoxOrigin& origin) {
  const std::uint64_t wanted = element_count_of(array, shape);
  std::uint64_t covered = 0;
  Filled filled{array, {}, boxes.data(), origin};
  for (const Box& box : boxes) {
    if (!box.is_within(shape)) {
      throw Error(Errc::malformed_metadata,
                  fmt::format("'{}': slice {} reaches beyond shape {}", array, to_string(box), shape));
    }
    if (box.is_empty()) {
      continue;
    }
    filled.boxes.push_back(&box);
    // Within the shape, so the count fits; the sum could wrap, but only when boxes overlap.
    if (__builtin_add_overflow(covered, *element_count(box.extents()), &covered)) {
      covered = UINT64_MAX;
    }
  }
  if (shape.empty()) {
    if (filled.boxes.size() > 1) {
      filled.refuse(filled.boxes[0], filled.boxes[1]);
    }
  } else if (filled.boxes.size() > 1) {
    check_disjoint(filled, sweep_dimension(filled.boxes, shape.size()));
  }
  if (covered < wanted) {
    throw Error(Errc::incomplete_shards, fmt::format("'{}': {} of the {} elements of shape {} are stored",
                                                     array, covered, wanted, shape));
  }
}

}  // namespace cairn::formats
