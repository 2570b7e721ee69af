// SPDX-License-Identifier: Apache-2.0
#include "array_bytes.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "cairn/array/copy.hpp"
#include "cairn/base/error.hpp"

#include "containers.hpp"

namespace cairn::detail {

DeviceCopier* copier_for(std::string_view path, const ArrayView& view, DType stored, DeviceCopier* copier) {
  const Device device = view.device();
  if (device.is_host()) {
    return nullptr;
  }
  const auto refuse = [&](std::string_view why) {
    throw Error(Errc::invalid_argument,
                fmt::format("{}: the array is on {}{}", shown(path), to_string(device), why));
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
  const std::size_t unit = unit_bytes(stored_);
  const auto ahead = static_cast<std::size_t>((unit - offset_bytes % unit) % unit);
  const std::size_t head = std::min(ahead, out.size());
  cast_part(offset_bytes, out.first(head));
  out = out.subspan(head);
  offset_bytes += head;
  const std::size_t whole = out.size() / unit * unit;
  if (whole > 0) {
    cast_range(offset_bytes, out.first(whole));
  }
  cast_part(offset_bytes + whole, out.subspan(whole));
}

void ArraySource::cast_range(std::uint64_t offset_bytes, std::span<std::byte> out) const {
  cairn::cast_range(array_.view(), stored_, offset_bytes, out, narrowing_);
}

void ArraySource::cast_part(std::uint64_t offset_bytes, std::span<std::byte> out) const {
  if (out.empty()) {
    return;
  }
  const std::size_t unit = unit_bytes(stored_);
  const auto skipped = static_cast<std::size_t>(offset_bytes % unit);
  std::array<std::byte, 8> whole{};
  cast_range(offset_bytes - skipped, std::span(whole).first(unit));
  std::memcpy(out.data(), whole.data() + skipped, out.size());
}

void ArraySink::write(std::uint64_t offset_bytes, std::span<const std::byte> in) {
  if (view_.dtype() == stored_) {
    scatter_range(in, offset_bytes, view_);
    return;
  }
  const std::size_t unit = unit_bytes(stored_);
  const auto ahead = static_cast<std::size_t>((unit - offset_bytes % unit) % unit);
  const std::size_t head = std::min(ahead, in.size());
  collect(offset_bytes, in.first(head));
  in = in.subspan(head);
  offset_bytes += head;
  const std::size_t whole = in.size() / unit * unit;
  if (whole > 0) {
    cast_scatter_range(in.first(whole), offset_bytes);
  }
  collect(offset_bytes + whole, in.subspan(whole));
}

void ArraySink::cast_scatter_range(std::span<const std::byte> in, std::uint64_t offset_bytes) {
  cairn::cast_scatter_range(in, stored_, offset_bytes, view_, narrowing_);
}

void ArraySink::collect(std::uint64_t offset_bytes, std::span<const std::byte> part) {
  if (part.empty()) {
    return;
  }
  const std::size_t unit = unit_bytes(stored_);
  const auto skipped = static_cast<std::size_t>(offset_bytes % unit);
  const std::scoped_lock lock(mutex_);
  Torn& torn = torn_[offset_bytes - skipped];
  std::memcpy(torn.bytes.data() + skipped, part.data(), part.size());
  torn.count += part.size();
  if (torn.count == unit) {
    cast_scatter_range(std::span(torn.bytes).first(unit), offset_bytes - skipped);
    torn_.erase(offset_bytes - skipped);
  }
}

}  // namespace cairn::detail
