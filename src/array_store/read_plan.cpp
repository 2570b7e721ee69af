// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "cairn/array_store/reader.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/index.hpp"

#include "array_store/array_bytes.hpp"
#include "array_store/read_steps.hpp"

namespace cairn::array_store {
namespace {

/// Makes one piece of what lies side by side in the file and in memory, so that it is read to where it belongs.
bool extend(std::vector<DestinationPiece>& pieces, const Region& region, const Array& array) {
  if (pieces.empty()) {
    return false;
  }
  DestinationPiece& last = pieces.back();
  const bool continues = last.data != nullptr && last.owner == array.owner() &&
                         last.offset_bytes + last.size_bytes == region.begin &&
                         last.data + last.size_bytes == array.view().data();
  last.size_bytes += continues ? region.end - region.begin : 0;
  return continues;
}

/// What takes a slice to `view`, a part of `memory` on a device.
std::shared_ptr<ByteSink> device_sink(const ReadArray& array, MutableArrayView view, const Array& memory) {
  const formats::IndexArray& stored = array.stored;
  if (!view.is_contiguous()) {
    throw Error(
        Errc::invalid_argument,
        fmt::format(
            "{}: it is stored in slices, which are not contiguous in an array on {}; load it into host "
            "memory first",
            formats::shown(stored.name), to_string(view.device())));
  }
  auto device = std::make_unique<ArrayOnDevice<DeviceSink>>(DeviceRegion{array.copier, view.data()},
                                                            memory.owner(), formats::shown(stored.name));
  if (view.dtype() == stored.dtype) {
    return device;
  }
  return std::make_shared<ArraySink>(std::move(view), memory.owner(), stored.dtype, array.narrowing,
                                     std::move(device));
}

/// Where the bytes of a region go.
DestinationPiece make_piece(const formats::Index& index, const Region& region, const ReadArray& array,
                            const Array& memory) {
  MutableArrayView view = memory.mutable_view();
  if (array.stored.slice_count > 1) {
    const formats::IndexSlice slice = index.slice(array.stored, region.slice);
    view = view.part(Box(Shape(slice.offsets), Shape(slice.extents)));
  }
  DestinationPiece piece;
  piece.offset_bytes = region.begin;
  piece.size_bytes = region.end - region.begin;
  if (array.copier != nullptr) {
    piece.sink = device_sink(array, std::move(view), memory);
  } else if (view.is_contiguous() && view.dtype() == array.stored.dtype) {
    piece.data = view.data();
    piece.owner = std::const_pointer_cast<void>(memory.owner());
  } else {
    piece.sink =
        std::make_shared<ArraySink>(std::move(view), memory.owner(), array.stored.dtype, array.narrowing);
  }
  return piece;
}

}  // namespace

std::vector<DestinationPiece> make_pieces(const formats::Index& index, std::span<const ReadArray> arrays,
                                          const Regions& regions, std::span<const Array> memory) {
  std::vector<DestinationPiece> pieces;
  pieces.reserve(regions.size());
  for (const Region& region : regions) {
    const ReadArray& array = arrays[region.array];
    if (!array.is_small || !extend(pieces, region, memory[region.array])) {
      pieces.push_back(make_piece(index, region, array, memory[region.array]));
    }
  }
  return pieces;
}

ReadPlan plan_read(const formats::Index& index, std::span<const WantedArray> wanted,
                   const ReadOptions& options, const StoredFiles& files) {
  LocatedArrays located = locate(index, wanted, options);
  RegionsByFile regions = check_regions(index, located.arrays, std::move(located.regions), files);
  ReadPlan plan;
  plan.arrays = options.map ? map_arrays(located.arrays, regions, files) : std::vector<Array>(wanted.size());
  allocate(located.arrays, regions, plan.arrays);
  for (const auto& [file, in_file] : regions) {
    if (!in_file.empty()) {
      plan.pieces.emplace(file, make_pieces(index, located.arrays, in_file, plan.arrays));
    }
  }
  return plan;
}

Awaitable<> read(std::shared_ptr<const StoredFiles> files, PiecesByFile pieces) {
  std::vector<Awaitable<>> reads;
  for (auto& [file, in_file] : pieces) {
    reads.push_back(files->read_pieces(file, std::move(in_file)));
  }
  co_await async::when_all(std::move(reads));
}

}  // namespace cairn::array_store
