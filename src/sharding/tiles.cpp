// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/sharding/policy.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20;  // What readers read, and check, at least.

/// The extents of tiles of at most `bytes`, as near to squares as halving the longest extent gives.
class TileShape {
 public:
  TileShape(const Shape& whole, DType dtype, const std::vector<std::size_t>& axes)
      : whole_(whole),
        tile_(whole),
        dtype_(dtype),
        parts_(whole.size(), 1),
        may_cut_(whole.size(), axes.empty()) {
    for (const std::size_t axis : axes) {
      if (axis < whole.size()) {
        may_cut_[axis] = true;
      }
    }
  }

  [[nodiscard]] const Shape& extents() const { return tile_; }

  /// Halves the longest extent, of several the innermost, until a tile is small enough or nothing can be cut any more.
  void shrink_to(std::uint64_t bytes) {
    while (byte_count(dtype_, tile_).value_or(UINT64_MAX) > bytes) {
      std::optional<std::size_t> longest;
      for (std::size_t axis = 0; axis < tile_.size(); ++axis) {
        if (may_cut_[axis] && tile_[axis] > 1 && (!longest || tile_[axis] >= tile_[*longest])) {
          longest = axis;
        }
      }
      if (!longest) {
        return;
      }
      parts_[*longest] *= 2;
      tile_[*longest] = (whole_[*longest] - 1) / parts_[*longest] + 1;
    }
  }

 private:
  const Shape whole_;
  Shape tile_;
  const DType dtype_;
  std::vector<std::uint64_t> parts_;
  std::vector<bool> may_cut_;
};

/// Goes on to the next tile of the region, the last axis first; false behind the last.
bool next_tile(Shape& offsets, const Shape& tile, const Box& region) {
  for (std::size_t axis = offsets.size(); axis-- > 0;) {
    offsets[axis] += tile[axis];
    if (offsets[axis] < region.end(axis)) {
      return true;
    }
    offsets[axis] = region.begin(axis);
  }
  return false;
}

void add_tiles(std::size_t number, const Box& region, const Shape& tile, FilePlan& file) {
  Shape offsets = region.offsets();
  do {
    Shape extents = tile;
    for (std::size_t axis = 0; axis < extents.size(); ++axis) {
      extents[axis] = std::min(extents[axis], region.end(axis) - offsets[axis]);
    }
    file.push_back({number, Box(offsets, std::move(extents)), nullptr});
  } while (next_tile(offsets, tile, region));
}

}  // namespace

Tiles::Tiles(std::uint64_t bytes, std::vector<std::size_t> axes) : bytes_(bytes), axes_(std::move(axes)) {
  if (bytes == 0) {
    throw Error(Errc::invalid_argument, "Tiles: the size limit must be positive");
  }
}

std::string Tiles::description() const {
  return fmt::format("Cuts arrays into tiles of at most {} bytes.", bytes_);
}

std::vector<FilePlan> Tiles::operator()(std::span<const ShardableTensor> tensors) const {
  std::vector<FilePlan> files;
  std::map<std::uint32_t, std::size_t> numbers;  // Of the files, by task.
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const ShardableTensor& tensor = tensors[i];
    const auto [place, is_new] = numbers.emplace(tensor.task, files.size());
    if (is_new) {
      files.emplace_back();
    }
    FilePlan& file = files[place->second];
    if (tensor.size_bytes <= bytes_ || tensor.full.empty() || tensor.is_packed()) {
      file.push_back({i, std::nullopt, nullptr});
      continue;
    }
    const Box region = tensor.region();
    TileShape tile(region.extents(), tensor.stored(), axes_);
    tile.shrink_to(bytes_);
    add_tiles(i, region, tile.extents(), file);
  }
  return files;
}

std::vector<std::string> Tiles::warnings(std::span<const ShardableTensor> /*tensors*/,
                                         std::span<const FilePlan> /*files*/) const {
  if (bytes_ >= kChunkBytes) {
    return {};
  }
  return {fmt::format("Tiles of {} bytes are smaller than what is read at least, {} bytes.", bytes_,
                      kChunkBytes)};
}

}  // namespace cairn
