// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/sharding/policy.hpp"

namespace cairn {
namespace {

/// Where a tensor is cut next.
struct NextCut {
  std::size_t axis = 0;
  std::uint64_t extent = 0;  // 0: no slice along one axis is small enough.
};

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// The axis along which parts that fit are the fewest, and the extent of parts of about equal size along it.
NextCut next_cut(const Shape& extents, std::uint64_t elements, std::uint64_t item_bytes,
                 std::uint64_t remaining) {
  std::optional<std::uint64_t> best;
  NextCut cut;
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    const std::uint64_t indexes = remaining / (elements / extents[axis] * item_bytes);
    if (indexes == 0) {
      continue;
    }
    const std::uint64_t parts = divide_up(extents[axis], indexes);
    // The first axis needs no part of average size to fit; the others do, in TensorFlow.
    const auto room = static_cast<unsigned __int128>(remaining) * parts;
    if (axis == 0 || ((!best || parts < *best) && elements * item_bytes <= room)) {
      best = parts;
      cut.axis = axis;
    }
  }
  cut.extent = best ? divide_up(extents[cut.axis], *best) : 0;
  return cut;
}

/// How many boxes of an array a file may hold.
enum class Boxes { one, any };

/// Fills one file after the other.
class Filler {
 public:
  Filler(std::uint64_t max_bytes, Boxes boxes)
      : max_bytes_(max_bytes), boxes_(boxes), remaining_(max_bytes), files_(1) {}

  void add(std::size_t number, const ShardableTensor& tensor) {
    number_ = number;
    key_ = tensor.key;
    item_bytes_ = bits(tensor.stored()) / 8;
    if (tensor.full.empty() || tensor.is_packed()) {
      add_whole(tensor.size_bytes);
    } else {
      const Box region = tensor.region();
      static_cast<void>(
          checked_byte_count(tensor.key, tensor.stored(), region.extents()));  // Below, products fit.
      add_box(region);
    }
  }

  [[nodiscard]] std::vector<FilePlan> finish() && {
    std::erase_if(files_, [](const FilePlan& file) { return file.empty(); });
    std::move(large_.begin(), large_.end(), std::back_inserter(files_));
    return std::move(files_);
  }

 private:
  void begin_file() {
    files_.emplace_back();
    remaining_ = max_bytes_;
    keys_.clear();
  }

  /// What is put next is of the tensor that is being added.
  void make_room() {
    if (boxes_ == Boxes::one && keys_.contains(key_)) {
      begin_file();
    }
  }

  void put(std::optional<Box> box, std::uint64_t bytes) {
    files_.back().push_back({number_, std::move(box), nullptr});
    remaining_ -= bytes;
    if (boxes_ == Boxes::one) {
      keys_.insert(key_);
    }
  }

  void put_alone(std::optional<Box> box) {
    large_.emplace_back();
    large_.back().push_back({number_, std::move(box), nullptr});
  }

  void add_whole(std::uint64_t bytes) {
    if (bytes > max_bytes_) {
      put_alone(std::nullopt);
      return;
    }
    make_room();
    if (bytes > remaining_) {
      begin_file();
    }
    put(std::nullopt, bytes);
  }

  void add_box(const Box& box) {
    Shape offsets = box.offsets();
    Shape extents = box.extents();
    std::uint64_t elements = box.is_empty() ? 0 : *element_count(extents);
    make_room();
    while (elements * item_bytes_ > remaining_) {
      const NextCut cut = next_cut(extents, elements, item_bytes_, remaining_);
      if (cut.extent == 0 && remaining_ == max_bytes_) {
        add_indexes(Box(std::move(offsets), std::move(extents)), elements);
        return;
      }
      if (cut.extent == 0) {
        begin_file();
        continue;
      }
      Shape part = extents;
      part[cut.axis] = cut.extent;
      const std::uint64_t part_elements = elements / extents[cut.axis] * cut.extent;
      put(Box(offsets, std::move(part)), part_elements * item_bytes_);
      offsets[cut.axis] += cut.extent;
      extents[cut.axis] -= cut.extent;
      elements -= part_elements;
      make_room();
      if (remaining_ == 0) {
        begin_file();
      }
    }
    if (elements > 0 || box.is_empty()) {
      put(Box(std::move(offsets), std::move(extents)), elements * item_bytes_);
    }
  }

  /// Where no slice along one axis fits into an empty file.
  void add_indexes(const Box& box, std::uint64_t elements) {
    if (elements == 1) {
      put_alone(box);
      return;
    }
    std::size_t axis = 0;
    while (box.extents()[axis] == 1) {
      ++axis;
    }
    Shape offsets = box.offsets();
    Shape extents = box.extents();
    extents[axis] = 1;
    for (; offsets[axis] < box.end(axis); ++offsets[axis]) {
      add_box(Box(offsets, extents));
    }
  }

  const std::uint64_t max_bytes_;
  const Boxes boxes_;
  std::uint64_t remaining_;
  std::vector<FilePlan> files_;
  std::vector<FilePlan> large_;
  std::unordered_set<std::string_view> keys_;  // In the last of the files; kept for Boxes::one only.
  std::size_t number_ = 0;                     // Of the tensor that is being added.
  std::string_view key_;
  std::uint64_t item_bytes_ = 1;
};

std::vector<FilePlan> filled(std::uint64_t max_bytes, Boxes boxes, std::span<const ShardableTensor> tensors) {
  Filler filler(max_bytes, boxes);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    filler.add(i, tensors[i]);
  }
  return std::move(filler).finish();
}

constexpr std::size_t kMostWarnings = 5;  // Of what there may be a hundred thousand.

/// Returns warnings of the first few parts that are larger than a file may be, and of how many more there
/// are.
std::vector<std::string> warnings_of(std::uint64_t max_bytes, std::span<const ShardableTensor> tensors,
                                     std::span<const FilePlan> files) {
  std::vector<std::string> warnings;
  std::size_t count = 0;
  for (const FilePlan& file : files) {
    for (const TensorPart& part : file) {
      const ShardableTensor& tensor = tensors[part.tensor];
      const bool is_cut = part.box && *part.box != tensor.region();
      const std::uint64_t bytes =
          is_cut ? byte_count(tensor.stored(), part.box->extents()).value_or(0) : tensor.size_bytes;
      if (bytes <= max_bytes || ++count > kMostWarnings) {
        continue;
      }
      const std::string what =
          tensor.full.empty()
              ? fmt::format("is a {} scalar of size {} bytes", name(tensor.stored()), bytes)
              : fmt::format("has a smallest slice {} of size {} bytes",
                            slice_spec(tensor.full, part.box ? *part.box : tensor.region()), bytes);
      warnings.push_back(
          fmt::format("Tensor '{}' {} and cannot be cut to a shard of at most {} bytes. It is in a "
                      "shard of its own.",
                      tensor.key, what, max_bytes));
    }
  }
  if (count > kMostWarnings) {
    warnings.push_back(fmt::format("{} more cannot be cut to shards of at most {} bytes, {} in all.",
                                   count - kMostWarnings, max_bytes, count));
  }
  return warnings;
}

}  // namespace

MaxShardSize::MaxShardSize(std::uint64_t max_bytes) : max_bytes_(max_bytes) {
  if (max_bytes == 0) {
    throw Error(Errc::invalid_argument, "MaxShardSize: the size limit must be positive");
  }
}

std::string MaxShardSize::description() const {
  return fmt::format("Split tensors into shards with a max shard size of {} bytes.", max_bytes_);
}

std::vector<FilePlan> MaxShardSize::operator()(std::span<const ShardableTensor> tensors) const {
  return filled(max_bytes_, Boxes::any, tensors);
}

std::vector<std::string> MaxShardSize::warnings(std::span<const ShardableTensor> tensors,
                                                std::span<const FilePlan> files) const {
  return warnings_of(max_bytes_, tensors, files);
}

MaxFileSize::MaxFileSize(std::uint64_t max_bytes) : max_bytes_(max_bytes) {
  if (max_bytes == 0) {
    throw Error(Errc::invalid_argument, "MaxFileSize: the size limit must be positive");
  }
}

std::string MaxFileSize::description() const {
  return fmt::format("Split tensors into files of at most {} bytes, with one box of a tensor in each.",
                     max_bytes_);
}

std::vector<FilePlan> MaxFileSize::operator()(std::span<const ShardableTensor> tensors) const {
  return filled(max_bytes_, Boxes::one, tensors);
}

std::vector<std::string> MaxFileSize::warnings(std::span<const ShardableTensor> tensors,
                                               std::span<const FilePlan> files) const {
  return warnings_of(max_bytes_, tensors, files);
}

}  // namespace cairn
