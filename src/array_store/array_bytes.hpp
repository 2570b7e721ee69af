// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cairn/array/array.hpp"

#include "array/internal/cast.hpp"
#include "base/internal/mutex.hpp"
#include "staging/internal/device_pieces.hpp"

namespace cairn::array_store {

/// The fewest bytes that hold whole elements of a dtype; casts work on multiples of it.
[[nodiscard]] std::size_t unit_bytes(DType dtype) noexcept;

/// Finds the copier that reaches the memory of a device, or null. An empty function reaches none.
using CopierOf = std::function<DeviceCopier*(Device)>;

/// Returns the copier that reaches the memory of an array, to copy it as `stored` or from it; null when it is
/// the host's.
///
/// Errors: Errc::invalid_argument, naming the array, when nobody does, or when it lies on a device and is not
///         contiguous, or is to be cast and has or gets elements that share bytes.
[[nodiscard]] DeviceCopier* copier_for(std::string_view path, const ArrayView& view, DType stored,
                                       const CopierOf& copier_of);

/// Errors: Errc::unsafe_cast, naming the array, where `cast` would refuse.
void check_cast(std::string_view path, DType from, DType to, Narrowing narrowing);

/// A contiguous array on a device, as its memory holds it: a DeviceSource or a DeviceSink.
template <class Place>
class ArrayOnDevice final : public Place {
 public:
  /// `owner` keeps the memory alive; may be null when the caller does.
  ArrayOnDevice(DeviceRegion region, std::shared_ptr<const void> owner, std::string what)
      : Place(region), owner_(std::move(owner)), what_(std::move(what)) {}

  [[nodiscard]] std::string describe() const override { return what_; }

 private:
  std::shared_ptr<const void> owner_;
  std::string what_;
};

/// An array's elements in row-major order, perhaps of another dtype than in memory.
class ArraySource final : public ByteSource {
 public:
  /// `device` reads the array's memory when that is not the host's, for casts on the host.
  ArraySource(Array array, DType stored, Narrowing narrowing,
              std::unique_ptr<const ByteSource> device = nullptr)
      : array_(std::move(array)), stored_(stored), narrowing_(narrowing), device_(std::move(device)) {}

  void read(std::uint64_t offset_bytes, std::span<std::byte> out) const override;
  void add_copiers(std::set<DeviceCopier*>& copiers) const override;

 private:
  void cast_units(std::uint64_t offset_bytes, std::span<std::byte> out) const;
  void cast_part(std::uint64_t offset_bytes, std::span<std::byte> out) const;

  Array array_;
  DType stored_;
  Narrowing narrowing_;
  std::unique_ptr<const ByteSource> device_;
};

/// Takes an array's elements, as a file holds them, to memory with any strides and perhaps of another dtype.
class ArraySink final : public ByteSink {
 public:
  /// `owner` keeps the memory alive; may be null when the caller does. `device` writes to it when it is not the host's.
  ArraySink(MutableArrayView view, std::shared_ptr<const void> owner, DType stored, Narrowing narrowing,
            std::unique_ptr<ByteSink> device = nullptr)
      : view_(std::move(view)),
        owner_(std::move(owner)),
        stored_(stored),
        narrowing_(narrowing),
        device_(std::move(device)) {}

  void write(std::uint64_t offset_bytes, std::span<const std::byte> in) override;
  void add_copiers(std::set<DeviceCopier*>& copiers) const override;

 private:
  /// An element of which a read brought one part only. Reads end where blocks of the file end, which need
  /// not be where elements end.
  struct Torn {
    std::array<std::byte, kMaxElementBytes> bytes{};
    std::size_t count = 0;
  };

  void cast_units(std::uint64_t offset_bytes, std::span<const std::byte> in);
  void collect(std::uint64_t offset_bytes, std::span<const std::byte> part);

  MutableArrayView view_;
  std::shared_ptr<const void> owner_;
  DType stored_;
  Narrowing narrowing_;
  std::unique_ptr<ByteSink> device_;
  Mutex mutex_;
  std::map<std::uint64_t, Torn> torn_ CAIRN_GUARDED_BY(mutex_);  // By the offset of the unit.
};

/// Memory for stored elements.
struct ElementMemory {
  DType stored{};
  MutableArrayView view;
  std::shared_ptr<const void> owner;  ///< Keeps the memory alive; may be null when the caller does.
  DeviceCopier* copier = nullptr;     ///< Reaches the memory; null: it is the host's.
};

/// The piece that takes a range of a file to memory: its bytes are all elements of the view, one behind the other.
/// `what` names them.
[[nodiscard]] DestinationPiece make_piece(std::uint64_t begin_bytes, std::uint64_t end_bytes,
                                          ElementMemory to, Narrowing narrowing, std::string_view what);

}  // namespace cairn::array_store
