// SPDX-License-Identifier: Apache-2.0
#include "tools/internal/array_stream.hpp"

#include <algorithm>
#include <utility>

#include "cairn/sharding/flat_range.hpp"

namespace cairn::tools {
namespace {

constexpr std::uint64_t kBatchBytes = std::uint64_t{64} << 20;

/// Returns whether a region is read all at once: its elements may not be cut into bytes.
bool is_undivided(const Region& region) {
  return is_packed(region.dtype) || is_packed(region.stored);
}

/// Asks for the boxes that bytes of a region consist of; they lie one behind the other at `data`.
void want(WantedBoxes& boxes, const Region& region, std::uint64_t begin_bytes, std::uint64_t bytes,
          std::byte* data) {
  AbstractShardedArray& wanted = boxes.try_emplace(region.path, region.shape, region.dtype).first->second;
  wanted.allows_narrowing = is_valid(region.stored);
  if (is_undivided(region)) {
    wanted.place_into(region.box, MutableArrayView(data, region.box.extents(), region.dtype));
    return;
  }
  const std::uint64_t element_bytes = bits(region.dtype) / 8;
  const std::uint64_t begin = begin_bytes / element_bytes;
  for (const FlatPiece& piece : boxes_of_flat_range(region.box, begin, begin + bytes / element_bytes)) {
    wanted.place_into(
        piece.box, MutableArrayView(data + piece.first * element_bytes, piece.box.extents(), region.dtype));
  }
}

}  // namespace

std::uint64_t Region::size_bytes() const {
  return checked_byte_count(path, dtype, box.extents());
}

Region whole_region(std::string path, const AbstractArray& array) {
  return {std::move(path), array.dtype, array.shape, Box::whole(array.shape)};
}

struct ArrayStream::Batch {
  struct Run {
    std::size_t region = 0;
    std::uint64_t begin_bytes = 0;  ///< In the region.
    std::uint64_t bytes = 0;
  };

  std::vector<Run> runs;
  std::size_t next_run = 0;
  std::uint64_t next_bytes = 0;  ///< Where it begins in the memory.
  Array memory;
  std::optional<ArrayReading> reading;  ///< To the memory.
};

ArrayStream::ArrayStream(ArrayReader arrays, std::vector<Region> regions)
    : arrays_(std::move(arrays)), regions_(std::move(regions)), next_(start()) {}

ArrayStream::~ArrayStream() = default;

std::unique_ptr<ArrayStream::Batch> ArrayStream::start() {
  auto batch = std::make_unique<Batch>();
  std::uint64_t bytes = 0;
  for (; region_ < regions_.size(); ++region_, begin_bytes_ = 0) {
    const Region& region = regions_[region_];
    const std::uint64_t size = region.size_bytes();
    const std::uint64_t unit = is_undivided(region) ? size : bits(region.dtype) / 8;
    const std::uint64_t room =
        bytes == 0 ? std::max(kBatchBytes, unit) : kBatchBytes - std::min(kBatchBytes, bytes);
    const std::uint64_t taken = size == 0 ? 0 : std::min(size - begin_bytes_, room / unit * unit);
    if (taken > 0) {
      batch->runs.push_back({region_, begin_bytes_, taken});
      bytes += taken;
      begin_bytes_ += taken;
    }
    if (begin_bytes_ < size) {
      break;
    }
  }
  if (bytes == 0) {
    return nullptr;
  }
  batch->memory = Array(Shape{bytes}, DType::uint8);
  std::byte* data = batch->memory.mutable_view().bytes().data();
  WantedBoxes boxes;
  for (const Batch::Run& run : batch->runs) {
    want(boxes, regions_[run.region], run.begin_bytes, run.bytes, data);
    data += run.bytes;
  }
  batch->reading.emplace(arrays_.start(boxes));
  return batch;
}

std::optional<RegionPiece> ArrayStream::next() {
  if (!current_ || current_->next_run == current_->runs.size()) {
    current_ = std::move(next_);
    if (!current_) {
      return std::nullopt;
    }
    next_ = start();
    current_->reading->wait();
  }
  const Batch::Run& run = current_->runs[current_->next_run++];
  const auto bytes = current_->memory.view().bytes().subspan(current_->next_bytes, run.bytes);
  current_->next_bytes += run.bytes;
  return RegionPiece{run.region, run.begin_bytes, bytes};
}

}  // namespace cairn::tools
