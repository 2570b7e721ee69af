// SPDX-License-Identifier: Apache-2.0
#include "array_store/box_sink.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::array_store {
namespace {

constexpr std::size_t kBounceElements = std::size_t{4} << 10;  // At most 64 KiB.

std::int64_t floor_of(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

std::int64_t ceil_of(std::int64_t a, std::int64_t b) {
  return -floor_of(-a, b);
}

/// A box with another range along one dimension.
Box with_range(const Box& box, std::size_t dimension, std::int64_t begin, std::int64_t end) {
  Shape offsets = box.offsets();
  Shape extents = box.extents();
  offsets[dimension] = static_cast<std::uint64_t>(begin);
  extents[dimension] = static_cast<std::uint64_t>(end - begin);
  return {std::move(offsets), std::move(extents)};
}

/// Copies elements between the host's arrays of one shape, neither of which need be contiguous.
void convert(const ArrayView& from, const MutableArrayView& to, Narrowing narrowing) {
  if (from.dtype() == to.dtype()) {
    return copy(from, to);
  }
  if (from.is_contiguous()) {
    return cast_scatter_range(from.bytes(), from.dtype(), 0, to, narrowing);
  }
  const std::size_t item_bytes = bits(to.dtype()) / 8;
  std::array<std::byte, kBounceElements * kMaxElementBytes> bounce;
  const std::uint64_t step = kBounceElements * item_bytes;
  for (std::uint64_t done = 0; done < to.byte_count(); done += step) {
    const auto part =
        std::span(bounce).first(static_cast<std::size_t>(std::min(step, to.byte_count() - done)));
    cast_range(from, to.dtype(), done, part, narrowing);
    scatter_range(part, done, to);
  }
}

/// Calls `visit(data, bytes)` for the runs of a strided array that have no gaps, in the order of its elements.
template <class Visit>
void visit_runs(const MutableArrayView& view, Visit visit) {
  const Shape& shape = view.shape();
  std::size_t outer = view.rank();
  auto run = static_cast<std::int64_t>(bits(view.dtype()) / 8);
  while (outer > 0 && (shape[outer - 1] == 1 || view.strides()[outer - 1] == run)) {
    run *= static_cast<std::int64_t>(shape[--outer]);
  }
  Shape at(outer, 0);
  std::byte* data = view.data();
  for (;;) {
    visit(data, static_cast<std::size_t>(run));
    std::size_t d = outer;
    while (d > 0 && ++at[d - 1] == shape[d - 1]) {
      data -= view.strides()[d - 1] * static_cast<std::int64_t>(shape[d - 1] - 1);
      at[--d] = 0;
    }
    if (d == 0) {
      return;
    }
    data += view.strides()[d - 1];
  }
}

/// As convert, to memory of a device: packed on the host, and copied in one go.
void convert_on_device(const ArrayView& from, const MutableArrayView& to, DeviceCopier& copier,
                       Narrowing narrowing) {
  std::vector<std::byte> packed(static_cast<std::size_t>(to.byte_count()));
  convert(from, MutableArrayView(packed.data(), to.shape(), to.dtype()), narrowing);
  std::vector<DeviceCopy> copies;
  const std::byte* next = packed.data();
  visit_runs(to, [&](std::byte* data, std::size_t bytes) {
    copies.push_back({next, data, bytes});
    next += bytes;
  });
  copier.start(copies, CopyDirection::to_device)->wait();
}

}  // namespace

ElementLayout::ElementLayout(const Shape& extents, std::size_t item_bytes)
    : pitches_(extents.size(), 0), item_bytes_(static_cast<std::int64_t>(item_bytes)) {
  std::int64_t pitch = item_bytes_;
  for (std::size_t d = extents.size(); d-- > 0;) {
    pitches_[d] = pitch;
    pitch *= static_cast<std::int64_t>(extents[d]);
  }
}

std::int64_t ElementLayout::begin(const Box& box, std::size_t from) const noexcept {
  std::int64_t begin = 0;
  for (std::size_t d = from; d < box.rank(); ++d) {
    begin += static_cast<std::int64_t>(box.begin(d)) * pitches_[d];
  }
  return begin;
}

std::int64_t ElementLayout::end(const Box& box, std::size_t from) const noexcept {
  std::int64_t end = item_bytes_;
  for (std::size_t d = from; d < box.rank(); ++d) {
    end += static_cast<std::int64_t>(box.end(d) - 1) * pitches_[d];
  }
  return end;
}

void BoxSink::write(std::uint64_t offset_bytes, std::span<const std::byte> in) {
  const Range range{first_byte_ + static_cast<std::int64_t>(offset_bytes), in};
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    take(i, 0, 0, targets_[i].box, range);
  }
}

void BoxSink::add_copiers(std::set<DeviceCopier*>& copiers) const {
  for (const BoxTarget& target : targets_) {
    if (target.to.copier != nullptr) {
      copiers.insert(target.to.copier);
    }
  }
}

void BoxSink::take(std::size_t target, std::size_t from, std::int64_t base, Box part, const Range& range) {
  const BoxTarget& to = targets_[target];
  const std::size_t rank = to.box.rank();
  // Where the elements of index 0 along `from` begin and end. `inner` is 1 behind the last dimension.
  const std::size_t inner = std::min(from + 1, rank);
  const std::int64_t begin = base + to.layout.begin(to.box, inner);
  const std::int64_t end = base + to.layout.end(to.box, inner);
  if (from == rank) {  // One element.
    if (begin >= range.begin && end <= range.end()) {
      take_whole(to, part, range);
    } else if (begin < range.end() && end > range.begin) {
      take_torn(target, begin, part, range);
    }
    return;
  }
  const std::int64_t pitch = to.layout.pitch(from);
  // Of the indexes, those of which the range has anything; all but the first and the last it has wholly.
  const std::int64_t first =
      std::max(static_cast<std::int64_t>(to.box.begin(from)), floor_of(range.begin - end, pitch) + 1);
  const std::int64_t last =
      std::min(static_cast<std::int64_t>(to.box.end(from)), ceil_of(range.end() - begin, pitch)) - 1;
  if (first > last) {
    return;
  }
  const auto has_all = [&](std::int64_t i) {
    return begin + i * pitch >= range.begin && end + i * pitch <= range.end();
  };
  const auto take_some = [&](std::int64_t i) {
    take(target, from + 1, base + i * pitch, with_range(part, from, i, i + 1), range);
  };
  std::int64_t whole_begin = first;
  std::int64_t whole_end = last + 1;
  if (!has_all(first)) {
    take_some(first);
    ++whole_begin;
  }
  if (last >= whole_begin && !has_all(last)) {
    take_some(last);
    --whole_end;
  }
  if (whole_begin < whole_end) {
    take_whole(to, with_range(part, from, whole_begin, whole_end), range);
  }
}

void BoxSink::take_torn(std::size_t target, std::int64_t base, const Box& part, const Range& range) {
  const BoxTarget& to = targets_[target];
  const auto item_bytes = static_cast<std::size_t>(to.layout.item_bytes());
  const std::int64_t begin = std::max(base, range.begin);
  const std::int64_t end = std::min(base + to.layout.item_bytes(), range.end());
  const auto bytes = range.bytes.subspan(static_cast<std::size_t>(begin - range.begin),
                                         static_cast<std::size_t>(end - begin));
  const MutexLock lock(mutex_);
  Torn& torn = torn_[{target, base}];
  std::memcpy(torn.bytes.data() + (begin - base), bytes.data(), bytes.size());
  torn.count += bytes.size();
  if (torn.count == item_bytes) {
    take_whole(to, part, Range{base, std::span(torn.bytes).first(item_bytes)});
    torn_.erase({target, base});
  }
}

void BoxSink::take_whole(const BoxTarget& target, const Box& part, const Range& range) const {
  place(target, part, range.bytes.data() + (target.layout.begin(part) - range.begin), narrowing_);
}

void place(const BoxTarget& target, const Box& part, const std::byte* first, Narrowing narrowing) {
  Strides strides(part.rank(), 0);
  Shape offsets = part.offsets();
  for (std::size_t d = 0; d < part.rank(); ++d) {
    strides[d] = target.layout.pitch(d);
    offsets[d] -= target.box.begin(d);
  }
  const ArrayView from(first, part.extents(), target.to.stored, std::move(strides));
  const MutableArrayView to = target.to.view.part(Box(std::move(offsets), part.extents()));
  if (target.to.copier != nullptr) {
    convert_on_device(from, to, *target.to.copier, narrowing);
  } else {
    convert(from, to, narrowing);
  }
}

void CollectingSink::write(std::uint64_t offset_bytes, std::span<const std::byte> in) {
  if (in.size() == range_bytes_) {
    return take(in);
  }
  std::vector<std::byte> all;
  {
    const MutexLock lock(mutex_);
    bytes_.resize(static_cast<std::size_t>(range_bytes_));
    std::memcpy(bytes_.data() + offset_bytes, in.data(), in.size());
    missing_ -= in.size();
    if (missing_ > 0) {
      return;
    }
    all = std::move(bytes_);
  }
  take(all);
}

void CollectingSink::take(std::span<const std::byte> all) const {
  std::vector<std::byte> memory;
  const std::span<const std::byte> elements = formats::decode(all, slice_, memory);
  for (const BoxTarget& target : targets_) {
    place(target, target.box, elements.data() + target.layout.begin(target.box), narrowing_);
  }
}

void CollectingSink::add_copiers(std::set<DeviceCopier*>& copiers) const {
  for (const BoxTarget& target : targets_) {
    if (target.to.copier != nullptr) {
      copiers.insert(target.to.copier);
    }
  }
}

}  // namespace cairn::array_store
