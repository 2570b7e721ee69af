// SPDX-License-Identifier: Apache-2.0
#include "array/internal/cover.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn {
namespace {

/// Finds the boxes that lie in a region, and says what is wrong with them.
class Cover {
 public:
  Cover(std::string_view array, const Box& region, std::span<const Box> boxes, const BoxOrigin& origin)
      : array_(array), region_(region), boxes_(boxes), origin_(origin) {
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      if (boxes[i].rank() != region.rank()) {
        refuse(Errc::invalid_argument,
               fmt::format("box {} does not have {} dimensions", described(i), region.rank()));
      }
      if (region.contains(boxes[i]) ? !boxes[i].is_empty() : intersect(region, boxes[i]).has_value()) {
        numbers_.push_back(i);
      }
    }
  }

  void check() {
    if (region_.is_empty() || is_grid()) {
      return;
    }
    if (numbers_.size() > 1) {
      check_no_overlap();
    }
    check_no_gap();
  }

 private:
  [[nodiscard]] std::uint64_t begin(std::size_t number, std::size_t d) const {
    return std::max(boxes_[number].begin(d), region_.begin(d));
  }

  [[nodiscard]] std::uint64_t end(std::size_t number, std::size_t d) const {
    return std::min(boxes_[number].end(d), region_.end(d));
  }

  [[noreturn]] void refuse(Errc code, const std::string& why) const {
    throw Error(code, fmt::format("'{}': {}", array_, why));
  }

  [[nodiscard]] std::string described(std::size_t number) const {
    return to_string(boxes_[number]) + (origin_ ? origin_(number) : "");
  }

  /// Where the boxes begin along a dimension, each place once, in order.
  [[nodiscard]] std::vector<std::uint64_t> lines(std::size_t d) const {
    constexpr std::size_t kFew = 64;
    std::vector<std::uint64_t> lines;
    std::optional<std::uint64_t> last;
    for (const std::size_t number : numbers_) {
      const std::uint64_t line = begin(number, d);
      if (std::exchange(last, line) == line) {
        continue;
      }
      const auto place = std::lower_bound(lines.begin(), lines.end(), line);
      if (place != lines.end() && *place == line) {
        continue;
      }
      if (lines.size() == kFew) {  // Inserting would take n^2.
        return sorted_lines(d);
      }
      lines.insert(place, line);
    }
    return lines;
  }

  [[nodiscard]] std::vector<std::uint64_t> sorted_lines(std::size_t d) const {
    std::vector<std::uint64_t> lines;
    for (const std::size_t number : numbers_) {
      lines.push_back(begin(number, d));
    }
    std::sort(lines.begin(), lines.end());
    lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
    return lines;
  }

  /// Returns whether every cell between lines through the whole region is exactly one of the boxes: then they
  /// tile it.
  [[nodiscard]] bool is_grid() const {
    std::vector<std::vector<std::uint64_t>> by_dimension;
    std::size_t cells = 1;
    for (std::size_t d = 0; d < region_.rank(); ++d) {
      by_dimension.push_back(lines(d));
      const std::size_t count = by_dimension.back().size();
      if (count == 0 || by_dimension.back()[0] != region_.begin(d) || count > numbers_.size() / cells) {
        return false;
      }
      cells *= count;
      by_dimension.back().push_back(region_.end(d));
    }
    if (cells != numbers_.size()) {
      return false;
    }
    std::vector<bool> is_taken(cells, false);
    for (const std::size_t number : numbers_) {
      std::size_t cell = 0;
      for (std::size_t d = 0; d < region_.rank(); ++d) {
        const std::vector<std::uint64_t>& lines_here = by_dimension[d];
        const auto line = std::lower_bound(lines_here.begin(), lines_here.end(), begin(number, d));
        if (*(line + 1) != end(number, d)) {
          return false;
        }
        cell = cell * (lines_here.size() - 1) + static_cast<std::size_t>(line - lines_here.begin());
      }
      if (is_taken[cell]) {
        return false;
      }
      is_taken[cell] = true;
    }
    return true;
  }

  /// Sweeps along the dimension in which the boxes begin at the most places: that looks at the fewest pairs.
  void check_no_overlap() {
    std::size_t sweep = 0;
    std::size_t most = 0;
    for (std::size_t d = 0; d < region_.rank(); ++d) {
      const std::size_t count = sorted_lines(d).size();
      sweep = count > most ? d : sweep;
      most = std::max(most, count);
    }
    if (region_.rank() == 0) {
      refuse_overlap(numbers_[0], numbers_[1]);
    }
    std::stable_sort(numbers_.begin(), numbers_.end(),
                     [&](std::size_t a, std::size_t b) { return begin(a, sweep) < begin(b, sweep); });
    std::vector<std::size_t> open;  // What the sweep has entered and not left.
    for (const std::size_t number : numbers_) {
      std::erase_if(open, [&](std::size_t other) { return end(other, sweep) <= begin(number, sweep); });
      for (const std::size_t other : open) {
        if (meet(number, other)) {
          refuse_overlap(other, number);
        }
      }
      open.push_back(number);
    }
  }

  [[nodiscard]] bool meet(std::size_t a, std::size_t b) const {
    for (std::size_t d = 0; d < region_.rank(); ++d) {
      if (begin(a, d) >= end(b, d) || begin(b, d) >= end(a, d)) {
        return false;
      }
    }
    return true;
  }

  [[noreturn]] void refuse_overlap(std::size_t a, std::size_t b) const {
    refuse(Errc::overlapping_shards,
           fmt::format("boxes {} and {} overlap in {}", described(std::min(a, b)), described(std::max(a, b)),
                       to_string(*intersect(boxes_[a], boxes_[b]))));
  }

  /// Boxes that do not overlap leave a gap exactly where they are too few; halving the region finds one.
  void check_no_gap() const {
    Box box = region_;
    std::uint64_t found = held_of(box);
    const std::uint64_t wanted = *element_count(region_.extents());
    if (found == wanted) {
      return;
    }
    const std::uint64_t held = found;
    while (found != 0) {
      const auto longest = std::max_element(box.extents().begin(), box.extents().end());
      const auto d = static_cast<std::size_t>(longest - box.extents().begin());
      Shape offsets = box.offsets();
      Shape extents = box.extents();
      extents[d] /= 2;
      const Box lower(offsets, extents);
      offsets[d] += extents[d];
      extents[d] = box.extents()[d] - extents[d];
      const std::uint64_t held_below = held_of(lower);
      const bool is_below = held_below < *element_count(lower.extents());
      box = is_below ? lower : Box(offsets, extents);
      found = is_below ? held_below : found - held_below;
    }
    const Box gap = grown(box);
    refuse(Errc::incomplete_shards, fmt::format("{} of the {} elements of {} are there; {} is not{}", held,
                                                wanted, to_string(region_), to_string(gap), beside(gap)));
  }

  /// A box that meets none of the others, as large as it can be so.
  [[nodiscard]] Box grown(Box gap) const {
    for (std::size_t d = 0; d < region_.rank(); ++d) {
      std::uint64_t least = region_.begin(d);
      std::uint64_t most = region_.end(d);
      for (const std::size_t number : numbers_) {
        if (!is_level(number, gap, d)) {
          continue;
        }
        if (end(number, d) <= gap.begin(d)) {
          least = std::max(least, end(number, d));
        } else {
          most = std::min(most, begin(number, d));
        }
      }
      Shape offsets = gap.offsets();
      Shape extents = gap.extents();
      offsets[d] = least;
      extents[d] = most - least;
      gap = Box(std::move(offsets), std::move(extents));
    }
    return gap;
  }

  /// Returns whether a box shares its place with the gap in all dimensions but one.
  [[nodiscard]] bool is_level(std::size_t number, const Box& gap, std::size_t but) const {
    for (std::size_t d = 0; d < region_.rank(); ++d) {
      if (d != but && (begin(number, d) >= gap.end(d) || end(number, d) <= gap.begin(d))) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool touches(std::size_t number, const Box& gap) const {
    for (std::size_t d = 0; d < region_.rank(); ++d) {
      if (is_level(number, gap, d) && (end(number, d) == gap.begin(d) || begin(number, d) == gap.end(d))) {
        return true;
      }
    }
    return false;
  }

  /// Returns what lies next to a gap that is as large as it can be: nothing only where there is nothing at
  /// all.
  [[nodiscard]] std::string beside(const Box& gap) const {
    constexpr std::size_t kMostNamed = 4;
    std::string text;
    std::size_t count = 0;
    for (const std::size_t number : numbers_) {
      if (touches(number, gap) && ++count <= kMostNamed) {
        text += (count == 1 ? "; next to it: " : ", ") + described(number);
      }
    }
    return count > kMostNamed ? fmt::format("{} and {} more", text, count - kMostNamed) : text;
  }

  [[nodiscard]] std::uint64_t held_of(const Box& box) const {
    std::uint64_t held = 0;
    for (const std::size_t number : numbers_) {
      if (const std::optional<Box> shared = intersect(box, boxes_[number])) {
        held += *element_count(shared->extents());
      }
    }
    return held;
  }

  std::string_view array_;
  const Box& region_;
  std::span<const Box> boxes_;
  const BoxOrigin& origin_;
  std::vector<std::size_t> numbers_;  // Of the boxes that meet the region.
};

}  // namespace

void check_cover(std::string_view array, const Box& region, std::span<const Box> boxes,
                 const BoxOrigin& origin) {
  if (!element_count(region.extents())) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}': {} has too many elements", array, to_string(region)));
  }
  Cover(array, region, boxes, origin).check();
}

}  // namespace cairn
