// SPDX-License-Identifier: Apache-2.0
#include "cairn/array/array_view.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "array/internal/require_within.hpp"
#include "base/internal/checked.hpp"

namespace cairn {
namespace {

constexpr std::size_t kCompareBytes = std::size_t{32}
                                      << 10;  // Two buffers of this size fit in a level 1 or 2 cache.

[[noreturn]] void refuse(const std::string& detail) {
  throw Error(Errc::invalid_argument, detail);
}

// Row-major without gaps; the strides of dimensions with one element do not matter.
bool has_row_major_strides(DType dtype, const Shape& shape, const Strides& strides) {
  auto expected = static_cast<std::int64_t>(bits(dtype) / 8);
  for (std::size_t dimension = shape.size(); dimension-- > 0;) {
    if (shape[dimension] != 1) {
      if (strides[dimension] != expected) {
        return false;
      }
      expected *= static_cast<std::int64_t>(shape[dimension]);
    }
  }
  return true;
}

// Whether the distance between the first and the last address of any element fits in 63 bits.
bool has_addressable_span(const Shape& shape, const Strides& strides) {
  std::int64_t span = 0;
  for (std::size_t dimension = 0; dimension < shape.size(); ++dimension) {
    const auto steps =
        static_cast<std::int64_t>(shape[dimension] - 1);  // Extents are below 2^63 and not 0 here.
    const auto distance = checked_multiply(steps, strides[dimension]);
    if (!distance || *distance == INT64_MIN) {
      return false;
    }
    const auto next = checked_add(span, *distance < 0 ? -*distance : *distance);
    if (!next) {
      return false;
    }
    span = *next;
  }
  return true;
}

/// Such strides are never meant, but easily given: most libraries count elements.
void refuse_overlapping_neighbours(DType dtype, const Shape& shape, const Strides& strides) {
  const auto element = static_cast<std::int64_t>(bits(dtype) / 8);
  for (std::size_t dimension = 0; dimension < shape.size(); ++dimension) {
    const std::int64_t stride = strides[dimension];
    if (shape[dimension] > 1 && stride != 0 && stride > -element && stride < element) {
      refuse(
          fmt::format("strides are in bytes; that of dimension {} is {}, and an element of {} has {}: "
                      "strides_in_elements converts {} if it counts elements",
                      dimension, stride, name(dtype), element, to_string(strides)));
    }
  }
}

bool is_host(const ArrayView& view) {
  return view.device().kind == Device::Kind::cpu;
}

}  // namespace

ArrayView::ArrayView(const void* data, Shape shape, DType dtype, Device device)
    : data_(static_cast<const std::byte*>(data)),
      shape_(std::move(shape)),
      strides_(row_major_strides(dtype, shape_)),
      byte_count_(*cairn::byte_count(dtype, shape_)),
      device_(device),
      dtype_(dtype) {
  if (data_ == nullptr && byte_count_ != 0) {
    refuse(fmt::format("an array of shape {} needs memory, but the pointer is null", to_string(shape_)));
  }
}

ArrayView::ArrayView(const void* data, Shape shape, DType dtype, Strides strides, Device device)
    : ArrayView(data, std::move(shape), dtype, device) {
  if (strides.size() != shape_.size()) {
    refuse(fmt::format("strides {} do not fit an array of shape {}", to_string(strides), to_string(shape_)));
  }
  if (is_packed(dtype)) {
    refuse(fmt::format("arrays of {} are contiguous: several elements share a byte", name(dtype)));
  }
  strides_ = std::move(strides);
  if (byte_count_ == 0) {
    return;  // No element, no address: any strides will do.
  }
  refuse_overlapping_neighbours(dtype, shape_, strides_);
  if (!has_addressable_span(shape_, strides_)) {
    refuse(fmt::format("strides {} leave the address space for shape {}", to_string(strides_),
                       to_string(shape_)));
  }
  is_contiguous_ = has_row_major_strides(dtype_, shape_, strides_);
}

std::uint64_t ArrayView::element_count() const noexcept {
  return byte_count_ * 8 / bits(dtype_);
}

std::span<const std::byte> ArrayView::bytes() const {
  if (!is_contiguous_) {
    refuse(fmt::format("an array of shape {} and strides {} is not contiguous", to_string(shape_),
                       to_string(strides_)));
  }
  return {data_, static_cast<std::size_t>(byte_count_)};
}

void ArrayView::check_access(DType wanted, std::size_t alignment) const {
  if (wanted != dtype_) {
    throw Error(Errc::dtype_mismatch,
                fmt::format("an array of {} was read as {}", name(dtype_), name(wanted)));
  }
  if (!is_host(*this)) {
    refuse("the array's memory is not the host's");
  }
  if (!is_contiguous_) {
    refuse(fmt::format("an array of shape {} and strides {} is not contiguous", to_string(shape_),
                       to_string(strides_)));
  }
  if (reinterpret_cast<std::uintptr_t>(data_) % alignment != 0) {
    refuse(fmt::format("an array of {} is not aligned to {} bytes", name(dtype_), alignment));
  }
}

ArrayView ArrayView::part(const Box& box) const {
  require_within("part", box, shape_);
  if (is_packed(dtype_)) {
    if (!box.is_whole(shape_)) {
      refuse(fmt::format("the part {} of an array of {}: several elements share a byte", to_string(box),
                         name(dtype_)));
    }
    return *this;
  }
  const std::byte* begin = data_;
  if (!box.is_empty()) {
    for (std::size_t dimension = 0; dimension < rank(); ++dimension) {
      begin += static_cast<std::int64_t>(box.begin(dimension)) * strides_[dimension];
    }
  }
  return {begin, box.extents(), dtype_, strides_, device_};
}

ArrayView ArrayView::transposed() const {
  if (rank() < 2) {
    return *this;
  }
  ArrayView result = *this;
  std::reverse(result.shape_.begin(), result.shape_.end());
  std::reverse(result.strides_.begin(), result.strides_.end());
  return {result.data_, result.shape_, dtype_, result.strides_, device_};
}

bool is_identical(const ArrayView& a, const ArrayView& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) {
    return false;
  }
  if (is_host(a) && is_host(b) && a.is_contiguous() && b.is_contiguous()) {
    return a.byte_count() == 0 || std::memcmp(a.data(), b.data(), a.bytes().size()) == 0;
  }
  std::array<std::byte, kCompareBytes> left;
  std::array<std::byte, kCompareBytes> right;
  for (std::uint64_t begin = 0; begin < a.byte_count(); begin += kCompareBytes) {
    const auto size =
        static_cast<std::size_t>(std::min<std::uint64_t>(kCompareBytes, a.byte_count() - begin));
    copy_range(a, begin, std::span(left).first(size));
    copy_range(b, begin, std::span(right).first(size));
    if (std::memcmp(left.data(), right.data(), size) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace cairn
