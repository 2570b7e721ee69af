// SPDX-License-Identifier: Apache-2.0
#include "array_bytes.hpp"

#include <algorithm>
#include <cstring>

#include "cairn/array/copy.hpp"

namespace cairn::detail {

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
    cast_range(array_.view(), stored_, offset_bytes, out.first(whole), narrowing_);
  }
  cast_part(offset_bytes + whole, out.subspan(whole));
}

void ArraySource::cast_part(std::uint64_t offset_bytes, std::span<std::byte> out) const {
  if (out.empty()) {
    return;
  }
  const std::size_t unit = unit_bytes(stored_);
  const auto skipped = static_cast<std::size_t>(offset_bytes % unit);
  std::array<std::byte, 8> whole{};
  cast_range(array_.view(), stored_, offset_bytes - skipped, std::span(whole).first(unit), narrowing_);
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
    cast_scatter_range(in.first(whole), stored_, offset_bytes, view_, narrowing_);
  }
  collect(offset_bytes + whole, in.subspan(whole));
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
    cast_scatter_range(std::span(torn.bytes).first(unit), stored_, offset_bytes - skipped, view_, narrowing_);
    torn_.erase(offset_bytes - skipped);
  }
}

}  // namespace cairn::detail
