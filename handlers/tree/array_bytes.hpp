// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cairn/array/array.hpp"
#include "cairn/array/cast.hpp"
#include "cairn/staging/device_pieces.hpp"

namespace cairn::detail {

/// The fewest bytes that hold whole elements of a dtype; casts work on multiples of it.
[[nodiscard]] std::size_t unit_bytes(DType dtype) noexcept;

/// Who reaches the memory of an array, to copy it as `stored` or from it; null when it is the host's.
///
/// Errors: Errc::invalid_argument, naming the array, when nobody does (`copier` is null), or when it lies on a
///         device and is not contiguous, or is to be cast and has or gets elements that share bytes.
[[nodiscard]] DeviceCopier* copier_for(std::string_view path, const ArrayView& view, DType stored,
                                       DeviceCopier* copier);

/// An array's elements in row-major order, perhaps of another dtype than in memory.
class ArraySource : public ByteSource {
 public:
  ArraySource(Array array, DType stored, Narrowing narrowing)
      : array_(std::move(array)), stored_(stored), narrowing_(narrowing) {}

  void read(std::uint64_t offset_bytes, std::span<std::byte> out) const override;

 protected:
  /// As the free function: both ends lie between elements.
  virtual void cast_range(std::uint64_t offset_bytes, std::span<std::byte> out) const;

  [[nodiscard]] const Array& array() const noexcept { return array_; }
  [[nodiscard]] DType stored() const noexcept { return stored_; }
  [[nodiscard]] Narrowing narrowing() const noexcept { return narrowing_; }

 private:
  void cast_part(std::uint64_t offset_bytes, std::span<std::byte> out) const;

  Array array_;
  DType stored_;
  Narrowing narrowing_;
};

/// Takes an array's elements, as a file holds them, to memory with any strides and perhaps of another dtype.
class ArraySink : public ByteSink {
 public:
  /// `owner` keeps the memory alive; may be null when the caller does.
  ArraySink(MutableArrayView view, std::shared_ptr<const void> owner, DType stored, Narrowing narrowing)
      : view_(std::move(view)), owner_(std::move(owner)), stored_(stored), narrowing_(narrowing) {}

  void write(std::uint64_t offset_bytes, std::span<const std::byte> in) override;

 protected:
  /// As the free function: both ends lie between elements.
  virtual void cast_scatter_range(std::span<const std::byte> in, std::uint64_t offset_bytes);

  [[nodiscard]] const MutableArrayView& view() const noexcept { return view_; }
  [[nodiscard]] DType stored() const noexcept { return stored_; }
  [[nodiscard]] Narrowing narrowing() const noexcept { return narrowing_; }

 private:
  /// An element of which a read brought one part only. Reads end where blocks of the file end, which need
  /// not be where elements end.
  struct Torn {
    std::array<std::byte, 8> bytes{};
    std::size_t count = 0;
  };

  void collect(std::uint64_t offset_bytes, std::span<const std::byte> part);

  MutableArrayView view_;
  std::shared_ptr<const void> owner_;
  DType stored_;
  Narrowing narrowing_;
  std::mutex mutex_;
  std::map<std::uint64_t, Torn> torn_;  // By the offset of the unit.
};

}  // namespace cairn::detail
