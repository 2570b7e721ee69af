// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cairn/staging/device_copier.hpp"
#include "cairn/staging/pieces.hpp"

namespace cairn {

/// Copies between devices and the host that have been started, and for whom.
class DeviceTransfers {
 public:
  /// `first` is one of the `count` places whose bytes are copied; it must live until the wait is over.
  void add(std::unique_ptr<DeviceTransfer> transfer, const BytePlace& first, std::size_t count);

  /// Waits for all of them.
  ///
  /// Errors: Errc::device_failure, naming device, stream and array.
  void wait();

  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }

 private:
  struct Entry {
    std::unique_ptr<DeviceTransfer> transfer;
    const BytePlace* first;
    std::size_t count;
  };

  std::vector<Entry> entries_;
};

/// Bytes on a device, to be written to a file. The region must stay valid as long as the source.
class DeviceSource : public ByteSource {
 public:
  explicit DeviceSource(DeviceRegion region) : region_(region) {}

  void read(std::uint64_t offset_bytes, std::span<std::byte> out) const override;
  [[nodiscard]] DeviceRegion on_device() const override { return region_; }

 private:
  DeviceRegion region_;
};

/// Memory on a device that bytes of a file are to fill. The region must stay valid as long as the sink.
class DeviceSink : public ByteSink {
 public:
  explicit DeviceSink(DeviceRegion region) : region_(region) {}

  void write(std::uint64_t offset_bytes, std::span<const std::byte> in) override;
  [[nodiscard]] DeviceRegion on_device() const override { return region_; }

 private:
  DeviceRegion region_;
};

/// Lets the copiers of all pieces on devices follow the streams that they were made for.
void follow_programs(std::span<const SourcePiece> pieces);
void follow_programs(std::span<const DestinationPiece> pieces);

/// The snapshots of the pieces on devices.
struct DeviceSnapshots {
  /// Waits for the copies, and lets go of what they were made from.
  void wait();

  std::vector<SourcePiece> originals;  ///< Kept until the copies are made.
  /// The copies. What the pieces became must live until they have been waited for.
  DeviceTransfers started;
  /// Had no room: their pieces are as before.
  std::vector<Device> refused;
};

/// Puts copies on the same devices in the place of pieces there, and lets the programs' streams wait for
/// them: when it returns, what a program gives to its stream may change the arrays. `pieces` are arranged, and
/// so is what they become; what is side by side in the file is side by side in the copy.
///
/// Ownership: the arrays must stay valid until the copies are made. Those with an owner do; the memory of others
///            may be given back in the order of the program's stream (`cudaFreeAsync`), or so that the device
///            ends its work first (`cudaFree`).
[[nodiscard]] DeviceSnapshots snapshot_on_devices(std::vector<SourcePiece>& pieces);

}  // namespace cairn
