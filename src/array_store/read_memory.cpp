// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "array_store/read_steps.hpp"
#include "base/internal/aligned_memory.hpp"

namespace cairn::array_store {
namespace {

constexpr std::uint64_t kMostGapBytes = 4096;  // Cheaper to read, too, than to skip by a second read.

/// Memory for many small arrays: what lies side by side in the file lies side by side here. The price: it is freed when
/// the last of them goes, which bounds the size.
class Slab {
 public:
  /// Returns whether the memory has a place for a region, or could be made anew to have one: `run_end` is
  /// where the small arrays that follow without a gap end, and a short run is not worth a mapping of its own.
  bool reaches(const Region& region, std::uint64_t run_end) {
    if (memory_ && region.begin >= first_ && region.end <= first_ + memory_->size()) {
      return true;
    }
    if (run_end - region.begin < kFewestBytes) {
      return false;
    }
    first_ = region.begin / kPageBytes * kPageBytes;  // Aligned as in the file, for direct I/O.
    const std::uint64_t end =
        std::max(region.end, std::min(run_end, (first_ / kWindowBytes + 1) * kWindowBytes));
    memory_ = std::make_shared<AlignedMemory>(static_cast<std::size_t>(end - first_));
    return true;
  }

  /// The place of a region that the memory reaches.
  [[nodiscard]] Array array(const Region& region, Shape shape, DType dtype) const {
    return Array::share(MutableArrayView(memory_->data() + (region.begin - first_), std::move(shape), dtype),
                        memory_);
  }

 private:
  static constexpr std::uint64_t kPageBytes = 4096;
  static constexpr std::uint64_t kFewestBytes = 128 << 10;
  static constexpr std::uint64_t kWindowBytes = 4 << 20;  // What is read at once; two huge pages.

  std::shared_ptr<AlignedMemory> memory_;
  std::uint64_t first_ = 0;
};

/// Gives the small arrays of one file their memory.
void allocate_small(std::span<const ReadArray> arrays, const Regions& regions, std::vector<Array>& memory) {
  const auto extends_run = [&](std::size_t i) {
    return arrays[regions[i + 1].array].is_small && regions[i + 1].begin - regions[i].end < kMostGapBytes;
  };
  Slab slab;
  std::size_t run_end = 0;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const ReadArray& array = arrays[regions[i].array];
    if (!array.is_small) {
      continue;
    }
    for (run_end = std::max(run_end, i); run_end + 1 < regions.size() && extends_run(run_end);) {
      ++run_end;
    }
    Shape shape(array.stored.dims);
    memory[array.first] = slab.reaches(regions[i], regions[run_end].end)
                              ? slab.array(regions[i], std::move(shape), array.dtype)
                              : Array(std::move(shape), array.dtype);
  }
}

void fill_with_zeros(const MutableArrayView& part) {
  constexpr std::array<std::byte, 16> kZeros{};  // As large as any element.
  copy(ArrayView(kZeros.data(), part.shape(), part.dtype(), Strides(part.shape().size(), 0)), part);
}

/// Makes zeros of the elements of `box` that lie outside of `inner`: in slabs, of which each is cut off along one axis.
void fill_around(const Box& box, const Box& inner, const MutableArrayView& memory) {
  const std::optional<Box> shared = intersect(box, inner);
  if (!shared || shared->is_empty()) {
    return fill_with_zeros(memory);
  }
  Shape offsets(box.rank(), 0);
  Shape extents = box.extents();
  for (std::size_t axis = 0; axis < box.rank(); ++axis) {
    const std::uint64_t begin = shared->begin(axis) - box.begin(axis);
    const std::uint64_t end = shared->end(axis) - box.begin(axis);
    const std::uint64_t whole = extents[axis];
    for (const auto& [from, to] : {std::pair(std::uint64_t{0}, begin), std::pair(end, whole)}) {
      if (from < to) {
        offsets[axis] = from;
        extents[axis] = to - from;
        fill_with_zeros(memory.part(Box(offsets, extents)));
      }
    }
    offsets[axis] = begin;
    extents[axis] = end - begin;
  }
}

void allocate_boxes(const ReadArray& array, std::span<Array> memory) {
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const WantedShard& wanted = array.boxes->shards[i];
    memory[i] = wanted.destination ? *wanted.destination : Array(wanted.box.extents(), array.dtype);
    if (!wanted.box.is_empty() && !array.boxes->stored.contains(wanted.box)) {
      fill_around(wanted.box, array.boxes->stored, memory[i].mutable_view());
    }
  }
}

}  // namespace

void map_arrays(std::span<const ReadArray> arrays, RegionsByFile& regions, const StoredFiles& files,
                std::vector<Array>& memory) {
  for (auto& [file, in_file] : regions) {
    std::shared_ptr<const std::span<const std::byte>> bytes;
    std::erase_if(in_file, [&, name = std::string_view(file)](const Region& region) {
      const ReadArray& array = arrays[region.array];
      if (!array.is_plain) {
        return false;
      }
      if (!bytes) {
        bytes = files.map(name);
      }
      if (!bytes) {
        return false;  // It is read.
      }
      memory[array.first] =
          Array::share(ArrayView(bytes->data() + region.begin, Shape(array.stored.dims), array.dtype), bytes);
      return true;
    });
  }
}

void allocate(std::span<const ReadArray> arrays, const RegionsByFile& regions, std::vector<Array>& memory) {
  for (const ReadArray& array : arrays) {
    if (array.same_as) {
      continue;
    }
    if (array.boxes != nullptr) {
      allocate_boxes(array, std::span(memory).subspan(array.first, array.count()));
    } else if (array.destination != nullptr) {
      memory[array.first] = *array.destination;
    } else if (!array.is_small && memory[array.first].owner() == nullptr) {
      memory[array.first] = Array(Shape(array.stored.dims), array.dtype);
    }
  }
  for (const auto& [file, in_file] : regions) {
    allocate_small(arrays, in_file, memory);
  }
  for (const ReadArray& array : arrays) {
    for (std::size_t i = 0; array.same_as && i < array.count(); ++i) {
      memory[array.first + i] = memory[arrays[*array.same_as].first + i];
    }
  }
}

}  // namespace cairn::array_store
