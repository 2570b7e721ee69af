// SPDX-License-Identifier: Apache-2.0
#include "cli/stored_regions.hpp"

#include <cstring>
#include <vector>

#include "cairn/array/abstract_sharded_array.hpp"
#include "cairn/sharding/flat_range.hpp"

namespace cairn::cli {
namespace {

/// Asks for the boxes that a range consists of, which lie one behind the other in memory.
void want(AbstractShardedArray& wanted, const RegionRange& range) {
  const Region& region = *range.region;
  const std::uint64_t element_bytes = region.element_bytes();
  if (element_bytes == 0) {
    wanted.place_into(region.box, MutableArrayView(range.out.data(), region.box.extents(), region.dtype));
    return;
  }
  const std::uint64_t begin = range.begin_bytes / element_bytes;
  const std::uint64_t end = begin + range.out.size() / element_bytes;
  for (const FlatPiece& piece : boxes_of_flat_range(region.box, begin, end)) {
    std::byte* place = range.out.data() + piece.first * element_bytes;
    wanted.place_into(piece.box, MutableArrayView(place, piece.box.extents(), region.dtype));
  }
}

}  // namespace

ArrayReading start_ranges(const ArrayReader& arrays, std::span<const RegionRange> ranges) {
  WantedBoxes boxes;
  for (const RegionRange& range : ranges) {
    const Region& region = *range.region;
    want(boxes.try_emplace(region.path, region.shape, region.dtype).first->second, range);
  }
  return arrays.start(boxes);
}

void RegionSource::read(std::uint64_t offset_bytes, std::span<std::byte> out) const {
  const std::uint64_t whole = byte_count(region_.dtype, region_.box.extents()).value_or(0);
  const std::uint64_t unit = region_.element_bytes() == 0 ? whole : region_.element_bytes();
  const std::uint64_t begin = offset_bytes / unit * unit;
  const std::uint64_t end = (offset_bytes + out.size() + unit - 1) / unit * unit;
  std::vector<std::byte> around(end - begin);
  const RegionRange range{&region_, begin, around};
  start_ranges(*arrays_, std::span(&range, 1)).wait();
  std::memcpy(out.data(), around.data() + (offset_bytes - begin), out.size());
}

}  // namespace cairn::cli
