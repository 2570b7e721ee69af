// SPDX-License-Identifier: Apache-2.0
#include "cli/array_stream.hpp"

#include <algorithm>
#include <optional>

#include "cli/stored_regions.hpp"

namespace cairn::cli {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{64} << 20;

/// Elements [begin, end) of an array, counted row-major.
struct Run {
  std::size_t array = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t offset_bytes = 0;  ///< Of its first element in the array.
  std::uint64_t bytes = 0;
};

using Batch = std::vector<Run>;

/// Divides arrays into batches. Only an array of elements that share bytes makes a batch larger than the others.
std::vector<Batch> divide(std::span<const ExportedArray> arrays, std::span<const std::size_t> numbers) {
  std::vector<Batch> batches;
  std::uint64_t room = 0;
  const auto add = [&](const Run& run) {
    if (run.bytes > room) {
      batches.emplace_back();
      room = std::max(kPieceBytes, run.bytes);
    }
    batches.back().push_back(run);
    room -= run.bytes;
  };
  for (const std::size_t number : numbers) {
    const ExportedArray& array = arrays[number];
    const std::uint64_t elements = element_count(array.shape).value_or(0);
    if (elements == 0) {
      continue;
    }
    if (is_packed(array.dtype)) {
      add({number, 0, elements, 0, array.bytes});
      continue;
    }
    const std::uint64_t element_bytes = bits(array.dtype) / 8;
    for (std::uint64_t begin = 0; begin < elements;) {
      const std::uint64_t fits = room >= element_bytes ? room / element_bytes : kPieceBytes / element_bytes;
      const std::uint64_t end = begin + std::min(fits, elements - begin);
      add({number, begin, end, begin * element_bytes, (end - begin) * element_bytes});
      begin = end;
    }
  }
  return batches;
}

/// A batch that is being read. Refers to its memory.
class Reading {
 public:
  Reading(const ArrayReader& reader, std::span<const Region> regions, const Batch& batch)
      : batch_(batch), memory_(bytes_of(batch)) {
    std::vector<RegionRange> ranges;
    std::uint64_t at = 0;
    for (const Run& run : batch) {
      ranges.push_back({&regions[run.array], run.offset_bytes, std::span(memory_).subspan(at, run.bytes)});
      at += run.bytes;
    }
    reading_.emplace(start_ranges(reader, ranges));
  }

  /// Waits for it.
  void give(const std::function<void(const ArrayPiece&)>& take) {
    reading_->wait();
    std::uint64_t at = 0;
    for (const Run& run : batch_) {
      take({run.array, run.offset_bytes, std::span(memory_).subspan(at, run.bytes)});
      at += run.bytes;
    }
  }

 private:
  static std::uint64_t bytes_of(const Batch& batch) {
    std::uint64_t bytes = 0;
    for (const Run& run : batch) {
      bytes += run.bytes;
    }
    return bytes;
  }

  Batch batch_;
  std::vector<std::byte> memory_;
  std::optional<ArrayReading> reading_;  // Refers to the memory.
};

}  // namespace

void ArrayStream::read(std::span<const std::size_t> numbers,
                       const std::function<void(const ArrayPiece&)>& take) const {
  std::vector<Region> regions;
  for (const ExportedArray& array : arrays_) {
    regions.push_back({array.path, array.dtype, array.shape, Box::whole(array.shape)});
  }
  std::optional<Reading> current;
  for (const Batch& batch : divide(arrays_, numbers)) {
    Reading next(reader_, regions, batch);
    if (current) {
      current->give(take);
    }
    current.emplace(std::move(next));
  }
  if (current) {
    current->give(take);
  }
}

}  // namespace cairn::cli
