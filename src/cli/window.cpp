// SPDX-License-Identifier: Apache-2.0
#include "cli/window.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "cli/text.hpp"

namespace cairn::cli {
namespace {

constexpr std::uint64_t kMostEdge = 3;  // As numpy.

/// Returns whether no more than `limit` elements, which is positive, are shown with that many at each end; 0:
/// with all.
bool fits(const Selection& selection, std::uint64_t edge, std::uint64_t limit) {
  std::uint64_t count = 1;
  for (const SelectedRange& range : selection) {
    const std::uint64_t extent = range.end - range.begin;
    const std::uint64_t shown = edge == 0 ? extent : std::min(extent, 2 * edge);
    if (shown > limit / count) {
      return false;
    }
    count *= shown;
  }
  return true;
}

/// How many elements of a selection, which is not empty, to show at each end; 0: all.
std::uint64_t choose_edge(std::string_view title, const Selection& selection, std::uint64_t limit) {
  if (fits(selection, 0, limit)) {
    return 0;
  }
  for (std::uint64_t edge = kMostEdge; edge > 0; --edge) {
    if (fits(selection, edge, limit)) {
      return edge;
    }
  }
  throw Error(
      Errc::invalid_argument,
      fmt::format(
          "'{}': {} has so many dimensions that its corners alone exceed the limit of {}; give indices "
          "for some dimensions, or raise --limit",
          title, to_string(selection), count_text(limit, "element")));
}

WindowSide side_of(const SelectedRange& range, std::uint64_t edge) {
  WindowSide side;
  side.is_index = range.is_index;
  const auto add = [&side](std::uint64_t begin, std::uint64_t end) {
    side.read.push_back({begin, end, false});
    for (std::uint64_t i = begin; i < end; ++i) {
      side.shown.push_back(i);
    }
  };
  if (edge == 0 || range.end - range.begin <= 2 * edge) {
    add(range.begin, range.end);
  } else {
    add(range.begin, range.begin + edge);
    side.gap = side.shown.size();
    add(range.end - edge, range.end);
  }
  return side;
}

/// Elements that share bytes are read with all that share them: along the last dimension, where its rows begin with a
/// byte, else the whole array.
void widen_to_bytes(Window& window, const ArrayPlace& array) {
  if (!is_packed(array.dtype) || window.sides.empty()) {
    return;
  }
  const std::uint64_t group = 8 / std::gcd(8U, bits(array.dtype));
  const std::uint64_t row = array.shape[array.shape.size() - 1];
  if (row % group != 0) {
    for (std::size_t d = 0; d < window.sides.size(); ++d) {
      window.sides[d].read = {{0, array.shape[d], false}};
    }
    return;
  }
  std::vector<SelectedRange> wide;
  for (const SelectedRange& range : window.sides.back().read) {
    const std::uint64_t begin = range.begin / group * group;
    const std::uint64_t end = (range.end + group - 1) / group * group;
    if (!wide.empty() && begin <= wide.back().end) {
      wide.back().end = end;
    } else {
      wide.push_back({begin, end, false});
    }
  }
  window.sides.back().read = std::move(wide);
}

/// The boxes that a window reads, row-major by the ranges of its sides.
std::vector<Box> boxes_of(const Window& window) {
  std::vector<std::vector<SelectedRange>> boxes(1);
  for (const WindowSide& side : window.sides) {
    std::vector<std::vector<SelectedRange>> longer;
    for (const auto& box : boxes) {
      for (const SelectedRange& range : side.read) {
        longer.push_back(box);
        longer.back().push_back(range);
      }
    }
    boxes = std::move(longer);
  }
  std::vector<Box> result;
  for (const auto& box : boxes) {
    Shape offsets(box.size(), 0);
    Shape extents(box.size(), 0);
    for (std::size_t d = 0; d < box.size(); ++d) {
      offsets[d] = box[d].begin;
      extents[d] = box[d].end - box[d].begin;
    }
    result.emplace_back(std::move(offsets), std::move(extents));
  }
  return result;
}

/// Finds the elements of a window in its boxes.
class WindowElements {
 public:
  WindowElements(const Window& window, const std::vector<Box>& boxes, const std::vector<Array>& loaded)
      : window_(window), boxes_(boxes) {
    for (const Array& array : loaded) {
      elements_.emplace_back(array.view().bytes(), array.dtype());
    }
  }

  /// Gives all elements that begin with what the first dimensions chose: a box, and a place in it.
  void visit(std::size_t dimension, std::size_t box, std::vector<std::uint64_t>& at,
             const std::function<void(const Elements& elements, std::size_t i)>& take) const {
    if (dimension == window_.sides.size()) {
      std::uint64_t place = 0;
      for (std::size_t d = 0; d < at.size(); ++d) {
        place = place * boxes_[box].extents()[d] + (at[d] - boxes_[box].offsets()[d]);
      }
      take(elements_[box], static_cast<std::size_t>(place));
      return;
    }
    const WindowSide& side = window_.sides[dimension];
    for (const std::uint64_t index : side.shown) {
      const auto range = std::find_if(side.read.begin(), side.read.end(),
                                      [index](const SelectedRange& each) { return index < each.end; });
      at.push_back(index);
      visit(dimension + 1, box * side.read.size() + static_cast<std::size_t>(range - side.read.begin()), at,
            take);
      at.pop_back();
    }
  }

 private:
  const Window& window_;
  const std::vector<Box>& boxes_;
  std::vector<Elements> elements_;
};

}  // namespace

Window plan_window(std::string_view title, const ArrayPlace& array, const Selection& selection,
                   std::uint64_t limit) {
  const bool is_empty = std::any_of(selection.begin(), selection.end(),
                                    [](const auto& each) { return each.begin == each.end; });
  Window window;
  if (is_empty) {
    for (const SelectedRange& range : selection) {
      window.sides.emplace_back().is_index = range.is_index;
    }
    return window;
  }
  const std::uint64_t edge = choose_edge(title, selection, limit);
  for (const SelectedRange& range : selection) {
    window.sides.push_back(side_of(range, edge));
  }
  widen_to_bytes(window, array);
  return window;
}

void read_window(const ArrayPlace& array, const Window& window,
                 const std::function<void(const Elements& elements, std::size_t i)>& take) {
  const std::vector<Box> boxes = boxes_of(window);
  if (boxes.empty()) {
    return;
  }
  WantedBoxes wanted;
  AbstractShardedArray& of_array = wanted.try_emplace(array.path, array.shape, array.dtype).first->second;
  for (const Box& box : boxes) {
    of_array.want(box);
  }
  ArrayReaderOptions options;
  options.layout = array.layout;
  const std::vector<Array> loaded = ArrayReader(array.source, array.item, options).start(wanted).wait();
  std::vector<std::uint64_t> at;
  WindowElements(window, boxes, loaded).visit(0, 0, at, take);
}

}  // namespace cairn::cli
