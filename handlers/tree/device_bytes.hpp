// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "cairn/staging/device_pieces.hpp"

#include "array_bytes.hpp"

namespace cairn::detail {

/// An array on a device that is stored as it is, or stored elements of the type of the array that they go to.
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

/// As ArraySource, for an array on a device that is cast on the way: on the host.
class DeviceCastSource final : public ArraySource {
 public:
  DeviceCastSource(Array array, DeviceCopier& copier, DType stored, Narrowing narrowing, std::string what);

 private:
  void cast_range(std::uint64_t offset_bytes, std::span<std::byte> out) const override;

  ArrayOnDevice<DeviceSource> memory_;
};

/// As ArraySink, for an array on a device that is cast on the way: on the host.
class DeviceCastSink final : public ArraySink {
 public:
  DeviceCastSink(MutableArrayView view, DeviceCopier& copier, std::shared_ptr<const void> owner, DType stored,
                 Narrowing narrowing, std::string what);

 private:
  void cast_scatter_range(std::span<const std::byte> in, std::uint64_t offset_bytes) override;

  ArrayOnDevice<DeviceSink> memory_;
};

}  // namespace cairn::detail
