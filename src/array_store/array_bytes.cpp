// SPDX-License-Identifier: Apache-2.0
#include "array_store/array_bytes.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "cairn/array/array_view.hpp"
#include "cairn/base/error.hpp"

#include "formats/internal/index.hpp"

namespace cairn::array_store {
namespace {

/// Elements on their way between a device and a cast, at a time.
constexpr std::size_t kElements = std::size_t{128} << 10;

std::size_t bytes_of(DType dtype) {
  return bits(dtype) / 8;  // Packed types are not cast on their way to or from a device.
}

/// Calls `visit(stored, offset, part, elements)` for parts of a range of stored elements: their bytes, where they are
/// on the device, and memory of the host for so many bytes there, as such and as an array.
template <class Bytes, class Visit>
void visit_parts(DType stored, DType dtype, std::uint64_t offset_bytes, Bytes bytes, Visit visit) {
  const std::uint64_t first = offset_bytes / bytes_of(stored);
  const std::size_t count = bytes.size() / bytes_of(stored);
  std::vector<std::byte> part;
  for (std::size_t at = 0; at < count; at += kElements) {
    const std::size_t now = std::min(kElements, count - at);
    part.resize(now * bytes_of(dtype));
    visit(bytes.subspan(at * bytes_of(stored), now * bytes_of(stored)), (first + at) * bytes_of(dtype), part,
          MutableArrayView(part.data(), {now}, dtype));
  }
}

/// Calls `whole` for the units that a range of bytes has all of, and `torn` for the others, of which it has a part.
template <class Bytes, class Whole, class Torn>
void split_units(std::size_t unit, std::uint64_t offset_bytes, Bytes bytes, Whole whole, Torn torn) {
  const auto ahead = static_cast<std::size_t>((unit - offset_bytes % unit) % unit);
  const std::size_t head = std::min(ahead, bytes.size());
  const std::size_t end = head + (bytes.size() - head) / unit * unit;
  if (head > 0) {
    torn(offset_bytes, bytes.first(head));
  }
  if (end > head) {
    whole(offset_bytes + head, bytes.subspan(head, end - head));
  }
  if (end < bytes.size()) {
    torn(offset_bytes + end, bytes.subspan(end));
  }
}

}  // namespace

DeviceCopier* copier_for(std::string_view path, const ArrayView& view, DType stored,
                         const CopierOf& copier_of) {
  const Device device = view.device();
  if (device.is_host()) {
    return nullptr;
  }
  DeviceCopier* const copier = copier_of ? copier_of(device) : nullptr;
  const auto refuse = [&](std::string_view why) {
    throw Error(Errc::invalid_argument,
                fmt::format("{}: the array is on {}{}", formats::shown(path), to_string(device), why));
  };
  if (copier == nullptr) {
    refuse(", for which the context has no copier (ContextOptions::copiers)");
  }
  if (!view.is_contiguous()) {
    refuse(" and not contiguous; make it so there first");
  }
  if (view.dtype() != stored && (is_packed(view.dtype()) || is_packed(stored))) {
    refuse(fmt::format(" and cannot be cast between {} and {} there", name(view.dtype()), name(stored)));
  }
  return copier;
}

void check_cast(std::string_view path, DType from, DType to, Narrowing narrowing) {
  if (from == to) {
    return;
  }
  try {
    cast({}, from, {}, to, narrowing);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", formats::shown(path), error.detail()));
  }
}

std::size_t unit_bytes(DType dtype) noexcept {
  const unsigned element_bits = bits(dtype);
  if (element_bits % 8 == 0) {
    return element_bits / 8;
  }
  return element_bits == 6 ? 3 : 1;  // Four 6-bit elements fill three bytes, two 4-bit ones a single byte.
}

void ArraySource::read(std::uint64_t offset_bytes, std::span<std::byte> out) const {
  if (array_.dtype() == stored_) {
    copy_range(array_.view(), offset_bytes, out);
    return;
  }
  split_units(
      unit_bytes(stored_), offset_bytes, out, [this](auto at, auto part) { cast_units(at, part); },
      [this](auto at, auto part) { cast_part(at, part); });
}

void ArraySource::add_copiers(std::set<DeviceCopier*>& copiers) const {
  if (device_ != nullptr) {
    device_->add_copiers(copiers);
  }
}

void ArraySource::cast_units(std::uint64_t offset_bytes, std::span<std::byte> out) const {
  if (device_ == nullptr) {
    cast_range(array_.view(), stored_, offset_bytes, out, narrowing_);
    return;
  }
  visit_parts(stored_, array_.dtype(), offset_bytes, out,
              [this](auto to, std::uint64_t from, auto& part, const ArrayView& elements) {
                device_->read(from, part);
                cast_range(elements, stored_, 0, to, narrowing_);
              });
}

void ArraySource::cast_part(std::uint64_t offset_bytes, std::span<std::byte> out) const {
  const std::size_t unit = unit_bytes(stored_);
  const auto skipped = static_cast<std::size_t>(offset_bytes % unit);
  std::array<std::byte, kMaxElementBytes> whole{};
  cast_units(offset_bytes - skipped, std::span(whole).first(unit));
  std::memcpy(out.data(), whole.data() + skipped, out.size());
}

void ArraySink::write(std::uint64_t offset_bytes, std::span<const std::byte> in) {
  if (view_.dtype() == stored_) {
    scatter_range(in, offset_bytes, view_);
    return;
  }
  split_units(
      unit_bytes(stored_), offset_bytes, in, [this](auto at, auto part) { cast_units(at, part); },
      [this](auto at, auto part) { collect(at, part); });
}

void ArraySink::add_copiers(std::set<DeviceCopier*>& copiers) const {
  if (device_ != nullptr) {
    device_->add_copiers(copiers);
  }
}

void ArraySink::cast_units(std::uint64_t offset_bytes, std::span<const std::byte> in) {
  if (device_ == nullptr) {
    cast_scatter_range(in, stored_, offset_bytes, view_, narrowing_);
    return;
  }
  visit_parts(stored_, view_.dtype(), offset_bytes, in,
              [this](auto from, std::uint64_t to, auto& part, const MutableArrayView& elements) {
                cast_scatter_range(from, stored_, 0, elements, narrowing_);
                device_->write(to, part);
              });
}

void ArraySink::collect(std::uint64_t offset_bytes, std::span<const std::byte> part) {
  const std::size_t unit = unit_bytes(stored_);
  const auto skipped = static_cast<std::size_t>(offset_bytes % unit);
  const MutexLock lock(mutex_);
  Torn& torn = torn_[offset_bytes - skipped];
  std::memcpy(torn.bytes.data() + skipped, part.data(), part.size());
  torn.count += part.size();
  if (torn.count == unit) {
    cast_units(offset_bytes - skipped, std::span(torn.bytes).first(unit));
    torn_.erase(offset_bytes - skipped);
  }
}

DestinationPiece make_piece(std::uint64_t begin_bytes, std::uint64_t end_bytes, ElementMemory to,
                            Narrowing narrowing, std::string_view what) {
  DestinationPiece piece;
  piece.offset_bytes = begin_bytes;
  piece.size_bytes = end_bytes - begin_bytes;
  const bool is_cast = to.view.dtype() != to.stored;
  if (to.copier == nullptr && !is_cast && to.view.is_contiguous()) {
    piece.data = to.view.data();
    piece.owner = std::const_pointer_cast<void>(to.owner);
    return piece;
  }
  std::unique_ptr<ByteSink> device;
  if (to.copier != nullptr) {
    device = std::make_unique<ArrayOnDevice<DeviceSink>>(DeviceRegion{to.copier, to.view.data()}, to.owner,
                                                         formats::shown(what));
  }
  if (device != nullptr && !is_cast) {
    piece.sink = std::move(device);
  } else {
    piece.sink = std::make_shared<ArraySink>(std::move(to.view), std::move(to.owner), to.stored, narrowing,
                                             std::move(device));
  }
  return piece;
}

}  // namespace cairn::array_store
