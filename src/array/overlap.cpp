// SPDX-License-Identifier: Apache-2.0
#include "array/internal/overlap.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/array/shared_memory.hpp"
#include "cairn/base/error.hpp"

namespace cairn {
namespace {

using Address = std::uint64_t;

/// Some runs of bytes at equal distances.
struct Dimension {
  std::uint64_t stride = 0;
  std::uint64_t extent = 0;
};

/// The memory of one destination: runs of bytes without a gap, repeated along each dimension.
struct Region {
  const Destination* destination = nullptr;
  Address begin = 0;
  Address end = 0;
  std::uint64_t run_bytes = 0;
  std::vector<Dimension> dimensions;  // From the narrowest to the widest; none repeats within another.
};

[[noreturn]] void refuse_pair(const Destination& a, const Destination& b) {
  throw Error(Errc::invalid_argument, fmt::format("the destinations of {} and {} overlap", a.name, b.name));
}

[[noreturn]] void refuse_self(const Destination& destination) {
  throw Error(
      Errc::invalid_argument,
      fmt::format("{}: destination elements alias each other: strides {} for shape {}", destination.name,
                  to_string(destination.view.strides()), to_string(destination.view.shape())));
}

Region region_of(const Destination& destination) {
  const ArrayView& view = destination.view;
  Region region;
  region.destination = &destination;
  region.begin = reinterpret_cast<std::uintptr_t>(view.data());
  if (view.is_contiguous()) {
    region.run_bytes = view.byte_count();
    region.end = region.begin + region.run_bytes;
    return region;
  }
  std::vector<Dimension> dimensions;
  for (std::size_t i = 0; i < view.rank(); ++i) {
    const std::uint64_t extent = view.shape()[i];
    const std::int64_t stride = view.strides()[i];
    if (extent == 1) {
      continue;
    }
    const auto distance = static_cast<std::uint64_t>(stride < 0 ? -stride : stride);
    if (stride < 0) {
      region.begin -= distance * (extent - 1);  // The order of the elements does not matter here.
    }
    dimensions.push_back({distance, extent});
  }
  std::sort(dimensions.begin(), dimensions.end(),
            [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  region.run_bytes = bits(view.dtype()) / 8;
  std::uint64_t span = region.run_bytes;
  for (const Dimension& dimension : dimensions) {
    if (dimension.stride < span) {
      refuse_self(destination);
    }
    Dimension* const inner = region.dimensions.empty() ? nullptr : &region.dimensions.back();
    if (inner == nullptr && dimension.stride == region.run_bytes) {
      region.run_bytes *= dimension.extent;
    } else if (inner != nullptr && dimension.stride == inner->stride * inner->extent) {
      inner->extent *=
          dimension.extent;  // It goes on at the same distance: components of a field, halves of an axis.
    } else {
      region.dimensions.push_back(dimension);
    }
    span += dimension.stride * (dimension.extent - 1);
  }
  region.end = region.begin + span;
  return region;
}

/// Regions that lie between each other, seen as text of lines of one length: a region whose runs have that distance is
/// a rectangle in it, whatever its height.
class Page {
 public:
  Page(Address begin, std::uint64_t line_bytes) : begin_(begin), line_bytes_(line_bytes) {}

  void add(const Region& region) { add_block(region, region.dimensions.size(), region.begin); }

  /// Walks from the first line to the last, and refuses rectangles that share a byte of one.
  void check() {
    std::sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) {
      return std::pair(a.line, a.is_begin) < std::pair(b.line, b.is_begin);  // Ends come first.
    });
    std::map<std::uint64_t, const Rectangle*> open;  // By the column where they begin.
    for (const Edge& edge : edges_) {
      const Rectangle& rectangle = rectangles_[edge.rectangle];
      if (!edge.is_begin) {
        open.erase(rectangle.begin);
        continue;
      }
      const auto next = open.lower_bound(rectangle.begin);
      if (next != open.end() && next->first < rectangle.end) {
        refuse_pair(*next->second->destination, *rectangle.destination);
      }
      if (next != open.begin() && std::prev(next)->second->end > rectangle.begin) {
        refuse_pair(*std::prev(next)->second->destination, *rectangle.destination);
      }
      open.emplace_hint(next, rectangle.begin, &rectangle);
    }
  }

 private:
  struct Rectangle {
    const Destination* destination = nullptr;
    std::uint64_t begin = 0;  // Columns, in bytes.
    std::uint64_t end = 0;
  };

  struct Edge {
    std::uint64_t line = 0;
    bool is_begin = false;
    std::uint32_t rectangle = 0;
  };

  static constexpr std::size_t kMostRectangles = std::size_t{1} << 20;  // 72 MiB.

  /// Adds what the first `dimensions` dimensions of a region make, beginning at `at`.
  void add_block(const Region& region, std::size_t dimensions, Address at) {
    if (dimensions == 0) {
      add_lines(region, at, region.run_bytes, 1);
      return;
    }
    const Dimension& widest = region.dimensions[dimensions - 1];
    if (dimensions == 1 && widest.stride == line_bytes_) {
      add_lines(region, at, region.run_bytes, widest.extent);
      return;
    }
    for (std::uint64_t i = 0; i < widest.extent; ++i) {
      add_block(region, dimensions - 1, at + i * widest.stride);
    }
  }

  /// Adds a run of bytes that comes once in each of `count` lines, and may go on in the lines that follow.
  void add_lines(const Region& region, Address at, std::uint64_t bytes, std::uint64_t count) {
    std::uint64_t line = (at - begin_) / line_bytes_;
    const std::uint64_t column = (at - begin_) % line_bytes_;
    const std::uint64_t in_first = std::min(bytes, line_bytes_ - column);
    add_rectangle(region, line++, count, column, column + in_first);
    bytes -= in_first;
    if (const std::uint64_t whole = bytes / line_bytes_; whole > 0) {
      add_rectangle(region, line, whole, 0, line_bytes_);  // One run only: no other is longer than a line.
      line += whole;
      bytes -= whole * line_bytes_;
    }
    if (bytes > 0) {
      add_rectangle(region, line, count, 0, bytes);
    }
  }

  void add_rectangle(const Region& region, std::uint64_t line, std::uint64_t lines, std::uint64_t begin,
                     std::uint64_t end) {
    if (rectangles_.size() == kMostRectangles) {
      throw Error(Errc::invalid_argument,
                  fmt::format("cannot determine whether {} overlaps other destinations; use separate memory",
                              region.destination->name));
    }
    const auto index = static_cast<std::uint32_t>(rectangles_.size());
    rectangles_.push_back({region.destination, begin, end});
    edges_.push_back({line, true, index});
    edges_.push_back({line + lines, false, index});
  }

  Address begin_;
  std::uint64_t line_bytes_;
  std::vector<Rectangle> rectangles_;
  std::vector<Edge> edges_;
};

/// How many rectangles a region is when lines have its own length, and what length that is.
std::pair<std::uint64_t, std::uint64_t> lines_of(const Region& region) {
  std::uint64_t count = 1;
  for (const Dimension& dimension : region.dimensions) {
    count *= dimension.extent;
  }
  return {count, region.dimensions.empty() ? 0 : region.dimensions.front().stride};
}

/// Checks regions whose ranges of addresses overlap; they begin at ever higher addresses.
void check_cluster(std::span<const Region> regions) {
  std::pair<std::uint64_t, std::uint64_t> most{0, 0};
  for (const Region& region : regions) {
    if (!region.dimensions.empty()) {
      most = std::max(most, lines_of(region));
    }
  }
  if (most.second == 0) {
    refuse_pair(*regions[0].destination, *regions[1].destination);  // Nothing has a gap.
  }
  Page page(regions.front().begin, most.second);
  for (const Region& region : regions) {
    page.add(region);
  }
  page.check();
}

}  // namespace

void check_disjoint(std::span<const Destination> destinations) {
  std::vector<Region> regions;
  regions.reserve(destinations.size());
  for (const Destination& destination : destinations) {
    if (destination.view.byte_count() != 0) {
      regions.push_back(region_of(destination));
    }
  }
  const auto place = [](const Region& region) {
    const Device device = region.destination->view.device();
    return std::tuple(device.kind, device.index, region.begin);
  };
  const auto is_before = [&place](const Region& a, const Region& b) { return place(a) < place(b); };
  if (!std::is_sorted(regions.begin(), regions.end(),
                      is_before)) {  // Memory that was asked for in turn mostly is.
    std::sort(regions.begin(), regions.end(), is_before);
  }
  const auto is_again = [](const Region& a, const Region& b) {
    return a.destination->origin != 0 && a.destination->origin == b.destination->origin &&
           is_same_memory(a.destination->view, b.destination->view);
  };
  regions.erase(std::unique(regions.begin(), regions.end(), is_again), regions.end());
  for (std::size_t begin = 0; begin < regions.size();) {
    const Device device = regions[begin].destination->view.device();
    Address cluster_end = regions[begin].end;
    std::size_t end = begin + 1;
    while (end < regions.size() && regions[end].destination->view.device() == device &&
           regions[end].begin < cluster_end) {
      cluster_end = std::max(cluster_end, regions[end++].end);
    }
    if (end - begin > 1) {
      check_cluster(std::span(regions).subspan(begin, end - begin));
    }
    begin = end;
  }
}

bool overlaps_itself(const ArrayView& view) {
  struct Axis {
    std::uint64_t extent;
    std::uint64_t stride;  // Its magnitude: where the first element lies does not matter.
  };
  const std::uint64_t element = bits(view.dtype()) / 8;
  std::vector<Axis> axes;
  std::uint64_t count = 1;
  std::uint64_t span = element;
  for (std::size_t d = 0; d < view.shape().size(); ++d) {
    const std::int64_t stride = view.strides()[d];
    if (view.shape()[d] > 1 && stride != 0) {
      axes.push_back({view.shape()[d], static_cast<std::uint64_t>(stride < 0 ? -stride : stride)});
      count *= axes.back().extent;  // Below 2^63, as the view's bytes are.
      span += (axes.back().extent - 1) * axes.back().stride;
    }
  }
  if (view.byte_count() == 0 || is_packed(view.dtype())) {
    return false;
  }
  for (std::size_t a = 0; a < axes.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      // So many steps along the one lead to where so many along the other do.
      const std::uint64_t common = std::gcd(axes[a].stride, axes[b].stride);
      if (axes[b].stride / common < axes[a].extent && axes[a].stride / common < axes[b].extent) {
        return true;
      }
    }
  }
  return span < count * element;
}

}  // namespace cairn
