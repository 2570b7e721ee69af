// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/array_store/file_layout.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/foreign_catalogue.hpp"

#include "array/internal/cover.hpp"
#include "array/internal/overlap.hpp"
#include "array/internal/same_memory.hpp"
#include "array_store/array_bytes.hpp"
#include "array_store/read_steps.hpp"
#include "base/internal/checked.hpp"
#include "formats/internal/foreign_index.hpp"
#include "formats/internal/index.hpp"
#include "sharding/internal/box_table.hpp"

namespace cairn::array_store {
namespace {

using formats::Index;
using formats::IndexSlice;
using formats::shown;

/// The regions of a file. `last` is where they were found the last time: mostly one file is asked for again and again.
Regions& regions_of(std::string_view file, RegionsByFile& regions, RegionsByFile::iterator& last) {
  if (last == regions.end() || last->first != file) {
    last = regions.find(file);
  }
  if (last == regions.end()) {
    last = regions.try_emplace(std::string(file)).first;
  }
  return last->second;
}

/// Refuses memory that does not fit what is asked for: both can be changed after place_into has compared them.
void check_form(const Array& array, const Shape& shape, DType dtype, std::string_view name) {
  if (array.shape() != shape) {
    throw Error(Errc::shape_mismatch, fmt::format("{}: wanted with shape {}, but its memory has shape {}",
                                                  shown(name), shape, array.shape()));
  }
  if (array.dtype() != dtype) {
    throw Error(Errc::dtype_mismatch,
                fmt::format("{}: wanted as {}, but its memory is of {}", shown(name), dtype, array.dtype()));
  }
  static_cast<void>(array.mutable_view());
}

/// Refuses boxes that are not within the array, or share elements: an array that has them could not be.
void check_boxes(std::span<const WantedShard> shards, const Shape& shape, std::string_view name) {
  std::vector<Box> boxes;
  for (const WantedShard& shard : shards) {
    if (!shard.box.is_within(shape)) {
      throw Error(Errc::invalid_argument, fmt::format("{}: requested box {} is not within the shape {}",
                                                      shown(name), to_string(shard.box), shape));
    }
    boxes.push_back(shard.box);
  }
  const sharding::BoxTable table(boxes);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    for (const sharding::BoxOverlap& overlap : table.overlaps(boxes[i])) {
      const std::size_t other = overlap.number;
      const bool is_replica = boxes[i] == boxes[other] && shards[i].replica != shards[other].replica;
      if (other > i && !is_replica) {
        throw Error(Errc::invalid_argument,
                    boxes[i] == boxes[other]
                        ? fmt::format("{}: box {} is requested twice as replica {}", shown(name),
                                      to_string(boxes[i]), shards[i].replica)
                        : fmt::format("{}: requested boxes {} and {} overlap", shown(name),
                                      to_string(boxes[i]), to_string(boxes[other])));
      }
    }
  }
}

/// Refuses another shape than the stored one, unless that is allowed.
template <class Wanted>
void check_shape(const Wanted& wanted, const ReadOptions& options, const Shape& stored,
                 std::string_view name) {
  const bool may_differ =
      wanted.on_mismatch == ShapeMismatch::pad_and_crop || options.on_mismatch == ShapeMismatch::pad_and_crop;
  if (wanted.shape != stored && !(may_differ && wanted.shape.size() == stored.size())) {
    throw Error(Errc::shape_mismatch,
                fmt::format("{}: stored shape {}, wanted {}", shown(name), stored, wanted.shape));
  }
}

/// As describe_array, where boxes are wanted: those of `wanted`, or the one of a form.
template <class Wanted>
void describe_boxes(const Wanted& wanted, std::span<const WantedShard> shards, const ReadOptions& options,
                    ReadArray& array, ReadBoxes& boxes) {
  const std::string_view name = array.stored.name;
  const Shape stored(array.stored.dims);
  static_cast<void>(checked_byte_count(name, array.stored.dtype, stored));
  check_shape(wanted, options, stored, name);
  boxes.stored = Box::whole(stored);
  array.boxes = &boxes;
  boxes.shards = shards;
  array.dtype = wanted.dtype;
  array.narrowing =
      wanted.allows_narrowing || options.allow_narrowing ? Narrowing::allowed : Narrowing::refused;
  check_cast(name, array.stored.dtype, array.dtype, array.narrowing);
  check_boxes(shards, wanted.shape, name);
  for (const WantedShard& shard : shards) {
    if (!byte_count(array.dtype, shard.box.extents())) {
      throw Error(Errc::invalid_argument,
                  fmt::format("{}: the elements of box {} do not fill whole bytes as {}", shown(name),
                              to_string(shard.box), array.dtype));
    }
    DeviceCopier* copier = nullptr;
    if (shard.destination) {
      check_form(*shard.destination, shard.box.extents(), wanted.dtype, name);
      copier = copier_for(name, shard.destination->view(), array.stored.dtype, options.copier_of);
    }
    if (!boxes.stored.contains(shard.box) && (copier != nullptr || is_packed(array.dtype))) {
      throw Error(Errc::invalid_argument,
                  fmt::format("{}: box {} reaches beyond the stored shape {}, and zeros {} are not offered",
                              shown(name), to_string(shard.box), stored,
                              copier != nullptr ? "on a device" : fmt::format("of {}", array.dtype)));
    }
    boxes.copiers.push_back(copier);
  }
}

ReadArray describe_array(const Index& index, const WantedArray& wanted, const ReadOptions& options,
                         std::deque<ReadBoxes>& boxes) {
  ReadArray array;
  array.stored = index.array(wanted.entry);
  array.is_raw = wanted.entry.kind == formats::EntryKind::unread;
  array.dtype = array.stored.dtype;
  if (wanted.boxes != nullptr) {
    describe_boxes(*wanted.boxes, wanted.boxes->shards, options, array, boxes.emplace_back());
    return array;
  }
  if (wanted.form == nullptr) {
    return array;
  }
  if (wanted.form->box || wanted.form->shape != Shape(array.stored.dims)) {
    ReadBoxes& one = boxes.emplace_back();
    one.only.push_back({wanted.form->box.value_or(Box::whole(wanted.form->shape)), wanted.form->destination});
    describe_boxes(*wanted.form, one.only, options, array, one);
    return array;
  }
  const std::string_view name = array.stored.name;
  array.dtype = wanted.form->dtype;
  const bool may_narrow = wanted.form->allows_narrowing || options.allow_narrowing;
  array.narrowing = may_narrow ? Narrowing::allowed : Narrowing::refused;
  check_cast(name, array.stored.dtype, array.dtype, array.narrowing);
  if (wanted.form->destination) {
    check_form(*wanted.form->destination, wanted.form->shape, wanted.form->dtype, name);
    array.destination = &*wanted.form->destination;
    array.copier = copier_for(name, array.destination->view(), array.stored.dtype, options.copier_of);
  }
  return array;
}

/// Returns whether an array that is stored as one slice is aligned (in files that others wrote it need not
/// be) and wanted as it is stored.
bool is_plain(const ReadArray& array, const IndexSlice& slice) {
  const DType stored = array.stored.dtype;
  const bool is_aligned = is_packed(stored) || slice.offset % unit_bytes(stored) == 0;
  return array.dtype == stored && array.destination == nullptr && is_aligned && slice.size > 0 &&
         slice.form == nullptr;
}

/// Checks that stored slices tile a box of an array.
void check_stored_cover(const Index& index, std::string_view name, const Box& box,
                        std::span<const Box> boxes) {
  try {
    check_cover(name, box, boxes);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", index.path(), error.detail()));
  }
}

/// Collects the slices of the array with that number, which must tile it.
void add_slices(const Index& index, std::size_t number, ReadArray& array, RegionsByFile& regions,
                RegionsByFile::iterator& last) {
  const formats::IndexArray& stored = array.stored;
  std::vector<Box> boxes;
  for (std::uint32_t i = 0; i < stored.slice_count; ++i) {
    const IndexSlice slice = index.slice(stored, i);
    if (slice.size > 0) {
      regions_of(slice.file, regions, last).push_back({slice.offset, slice.offset + slice.size, number, i});
    }
    if (stored.slice_count == 1) {
      array.has_form = slice.form != nullptr && !array.is_raw;
      array.is_plain = is_plain(array, slice);
      array.is_small = array.is_plain && slice.size <= kMostSmallBytes;
      if (slice.is_whole) {
        return;  // As nearly all are.
      }
    }
    boxes.push_back(slice.is_whole ? Box::whole(Shape(stored.dims))
                                   : Box(Shape(slice.offsets), Shape(slice.extents)));
  }
  const Shape shape(stored.dims);
  static_cast<void>(checked_byte_count(stored.name, stored.dtype, shape));
  check_stored_cover(index, stored.name, Box::whole(shape), boxes);
}

/// Collects the slices that wanted boxes meet, which must tile those.
void add_met_slices(const Index& index, std::size_t number, const formats::IndexArray& stored,
                    ReadBoxes& boxes, RegionsByFile& regions, RegionsByFile::iterator& last) {
  std::vector<Box> slices;
  slices.reserve(stored.slice_count);
  for (std::uint32_t i = 0; i < stored.slice_count; ++i) {
    const IndexSlice slice = index.slice(stored, i);
    slices.push_back(slice.is_whole ? Box::whole(Shape(stored.dims))
                                    : Box(Shape(slice.offsets), Shape(slice.extents)));
  }
  const sharding::BoxTable table(slices);
  for (std::uint32_t shard = 0; shard < boxes.shards.size(); ++shard) {
    const std::optional<Box> wanted = intersect(boxes.shards[shard].box, boxes.stored);
    if (!wanted || wanted->is_empty()) {
      continue;
    }
    std::vector<Box> met;
    for (sharding::BoxOverlap& overlap :
         slices.empty() ? std::vector<sharding::BoxOverlap>() : table.overlaps(*wanted)) {
      met.push_back(slices[overlap.number]);
      boxes.parts.push_back({static_cast<std::uint32_t>(overlap.number), shard, std::move(overlap.shared)});
    }
    check_stored_cover(index, stored.name, *wanted, met);
  }
  std::stable_sort(boxes.parts.begin(), boxes.parts.end(),
                   [](const SlicePart& a, const SlicePart& b) { return a.slice < b.slice; });
  for (std::size_t i = 0; i < boxes.parts.size(); ++i) {
    if (i == 0 || boxes.parts[i].slice != boxes.parts[i - 1].slice) {
      const IndexSlice slice = index.slice(stored, boxes.parts[i].slice);
      regions_of(slice.file, regions, last)
          .push_back({slice.offset, slice.offset + slice.size, number, boxes.parts[i].slice});
    }
  }
}

/// Returns whether two regions are of one archive, of whose tensor several slices are parts.
bool are_of_one_archive(const Index& index, std::span<const ReadArray> arrays, const Region& a,
                        const Region& b) {
  const IndexSlice slice = index.slice(arrays[a.array].stored, a.slice);
  const bool is_encoded = slice.form != nullptr && !slice.form->codecs.empty();
  return a.begin == b.begin && a.end == b.end && (is_encoded || !slice.is_located);
}

/// Returns the policy that decided what is in a file, for messages.
std::string policy_of(const Index& index, std::string_view file) {
  for (std::size_t i = 0; i < index.file_count(); ++i) {
    if (index.file(i) == file) {
      return shown_policy(index.policy_of_file(i));
    }
  }
  return {};
}

bool is_same_destination(const Array* a, const Array* b) {
  return a != nullptr && b != nullptr ? is_same_memory(a->view(), b->view()) : a == b;
}

/// Returns whether two reads of one array give the same.
bool is_same_read(const ReadArray& a, const ReadArray& b) {
  if (a.dtype != b.dtype || (a.boxes != nullptr) != (b.boxes != nullptr)) {
    return false;
  }
  if (a.boxes == nullptr) {
    return is_same_destination(a.destination, b.destination);
  }
  return std::equal(a.boxes->shards.begin(), a.boxes->shards.end(), b.boxes->shards.begin(),
                    b.boxes->shards.end(), [](const WantedShard& x, const WantedShard& y) {
                      return x.box == y.box && is_same_memory(x.destination, y.destination);
                    });
}

/// Finds arrays that are wanted under several names.
class ReadsBefore {
 public:
  ReadsBefore(const Index& index, std::span<const WantedArray> wanted) {
    const auto is_higher = [](const WantedArray& a, const WantedArray& b) {
      return a.entry.value >= b.entry.value;
    };
    // Where numbers rise, as they nearly always do, no array comes twice.
    if (std::adjacent_find(wanted.begin(), wanted.end(), is_higher) != wanted.end()) {
      last_.resize(index.array_count(), kNone);
    }
  }

  /// Compares the last of the arrays with those before it that take the same bytes.
  void compare(std::vector<ReadArray>& arrays) {
    if (last_.empty()) {
      return;
    }
    ReadArray& array = arrays.back();
    std::size_t& last = last_[static_cast<std::size_t>(array.stored.number)];
    before_.push_back(last);
    for (std::size_t i = last; i != kNone; i = before_[i]) {
      if (is_same_read(arrays[i], array)) {
        array.same_as = i;
        return;
      }
    }
    last = arrays.size() - 1;
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  std::vector<std::size_t> last_;    // Of each stored array the read that came last.
  std::vector<std::size_t> before_;  // Of each read the one before of the same stored array.
};

/// Refuses arrays that would be read over each other.
void check_destinations(std::span<const ReadArray> arrays) {
  std::vector<Destination> destinations;
  destinations.reserve(arrays.size());
  for (const ReadArray& array : arrays) {
    if (array.same_as) {
      continue;
    }
    if (array.destination != nullptr) {
      destinations.emplace_back(shown(array.stored.name), array.destination->view());
    }
    for (std::size_t i = 0; array.boxes != nullptr && i < array.boxes->shards.size(); ++i) {
      const WantedShard& shard = array.boxes->shards[i];
      if (shard.destination) {
        destinations.emplace_back(fmt::format("{} {}", shown(array.stored.name), to_string(shard.box)),
                                  shard.destination->view());
      }
    }
  }
  check_disjoint(destinations);
}

std::uint64_t saturated_sum(std::uint64_t a, std::uint64_t b) {
  return checked_add(a, b).value_or(~std::uint64_t{0});
}

/// Returns how many bytes of memory an array gets that has none of the caller's.
std::uint64_t own_bytes(const ReadArray& array) {
  std::uint64_t bytes = 0;
  if (array.boxes == nullptr && array.destination == nullptr) {
    return byte_count(array.dtype, Shape(array.stored.dims)).value_or(~std::uint64_t{0});
  }
  for (std::size_t i = 0; array.boxes != nullptr && i < array.boxes->shards.size(); ++i) {
    const WantedShard& shard = array.boxes->shards[i];
    const std::optional<Box> stored = intersect(shard.box, array.boxes->stored);
    if (stored && !shard.destination) {
      bytes = saturated_sum(bytes, byte_count(array.dtype, stored->extents()).value_or(0));
    }
  }
  return bytes;
}

}  // namespace

std::uint64_t most_bytes_of(const StoredFiles& files) {
  std::uint64_t bytes = 0;
  for (const std::string& file : files.names()) {
    bytes = saturated_sum(bytes, files.size_bytes(file).value_or(0));
  }
  return most_bytes_for(bytes);
}

std::uint64_t most_bytes_for(std::uint64_t bytes) noexcept {
  return saturated_sum(std::uint64_t{16} << 20, checked_multiply<std::uint64_t>(bytes, 16).value_or(bytes));
}

void check_foreign(const Index& index, const LocatedArrays& located, const StoredFiles& files) {
  if (index.foreign() == nullptr || (index.foreign()->slices.empty() && !index.foreign()->may_overlap)) {
    return;  // Each byte is read once, as in files of Cairn's.
  }
  std::uint64_t left = most_bytes_of(files);
  const auto take = [&](const ReadArray& array, std::uint64_t bytes) {
    if (bytes > left) {
      throw Error(
          Errc::malformed_metadata,
          fmt::format("{}: {}: the arrays up to this one have more than 16 times as many bytes as all files: "
                      "load fewer, or into memory of your own",
                      index.path(), shown(array.stored.name)));
    }
    left -= bytes;
  };
  for (const ReadArray& array : located.arrays) {
    take(array, array.same_as ? 0 : own_bytes(array));
  }
  for (const auto& [file, regions] : located.regions) {
    for (const Region& region : regions) {
      const ReadArray& array = located.arrays[region.array];
      const IndexSlice slice = index.slice(array.stored, region.slice);
      if (!slice.is_located) {
        throw Error(Errc::invalid_argument, fmt::format("{}: {}: its elements have not been located",
                                                        index.path(), shown(array.stored.name)));
      }
      if (slice.form != nullptr) {
        formats::check_codecs(*slice.form, array.stored.name);
        const Shape extents(slice.is_whole ? array.stored.dims : slice.extents);
        take(array, is_collected(*slice.form, extents, array.stored.dtype) ? slice.size : 0);
      }
    }
  }
}

std::string shown_policy(std::string_view description) {
  return description.empty() ? "" : fmt::format(" (sharding policy \"{}\")", description);
}

LocatedArrays locate(const Index& index, std::span<const WantedArray> wanted, const ReadOptions& options) {
  LocatedArrays located;
  auto last = located.regions.end();
  located.arrays.reserve(wanted.size());
  ReadsBefore before(index, wanted);
  for (const WantedArray& one : wanted) {
    ReadArray& array = located.arrays.emplace_back(describe_array(index, one, options, located.boxes));
    array.first = located.count;
    located.count += array.count();
    before.compare(located.arrays);
    if (array.same_as) {
      continue;
    }
    if (array.boxes != nullptr) {
      add_met_slices(index, located.arrays.size() - 1, array.stored, located.boxes.back(), located.regions,
                     last);
    } else {
      add_slices(index, located.arrays.size() - 1, array, located.regions, last);
    }
  }
  check_destinations(located.arrays);
  return located;
}

RegionsByFile check_regions(const Index& index, std::span<const ReadArray> arrays, RegionsByFile regions,
                            const StoredFiles& files) {
  const auto name_of = [&](const Region& region) { return shown(arrays[region.array].stored.name); };
  const auto slice_of = [&](const Region& region) {
    return std::size_t{arrays[region.array].stored.first_slice} + region.slice;
  };
  const bool may_overlap = index.foreign() != nullptr && index.foreign()->may_overlap;
  for (auto& [file, in_file] : regions) {
    const auto size = files.size_bytes(file);
    if (!size) {
      throw Error(Errc::not_found, fmt::format("{}: {}: its file '{}' is not there{}", index.path(),
                                               name_of(in_file.front()), file, policy_of(index, file)));
    }
    std::sort(in_file.begin(), in_file.end(),
              [](const Region& a, const Region& b) { return a.begin < b.begin; });
    std::uint64_t end = 0;
    const Region* before = nullptr;
    for (const Region& region : in_file) {
      const bool is_again =
          may_overlap || (before != nullptr && (slice_of(region) == slice_of(*before) ||
                                                are_of_one_archive(index, arrays, region, *before)));
      before = &region;
      if ((region.begin < end && !is_again) || region.end > *size) {
        throw Error(
            Errc::malformed_metadata,
            fmt::format("{}: {}: its bytes [{}, {}) of '{}' {}", index.path(), name_of(region), region.begin,
                        region.end, file,
                        region.end > *size ? "reach beyond the end" : "belong to another array, too"));
      }
      end = std::max(end, region.end);
    }
  }
  return regions;
}

}  // namespace cairn::array_store
