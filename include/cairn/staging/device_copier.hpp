// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cairn/base/device.hpp"

namespace cairn {

/// A stream of a device: for CUDA, a `cudaStream_t`. Null: the one that the copier was made for.
using DeviceStream = void*;

/// A run of bytes to be copied.
struct DeviceCopy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t bytes = 0;
};

enum class CopyDirection : std::uint8_t { to_host, to_device, within_device };

/// Copies that have been started.
class DeviceTransfer {
 public:
  /// Waits for the copies, so that nothing touches their memory afterwards; hides their failure.
  virtual ~DeviceTransfer() = default;

  /// Waits until all of them are done. May be called again.
  ///
  /// Errors: Errc::device_failure, naming device and stream.
  virtual void wait() = 0;
};

/// Moves bytes between the memory of one device and the host's, on a stream of its own.
///
/// Copies are made in the order in which they were started, those of one call in any order. The program's own
/// streams and the copier's know nothing of each other but what `follow` and `hold` say.
/// Threads: every method may be called from any thread.
/// Errors:  Errc::device_failure, naming device and stream.
class DeviceCopier {
 public:
  virtual ~DeviceCopier() = default;

  /// Whose memory it reaches.
  [[nodiscard]] virtual Device device() const noexcept = 0;

  /// Makes what is started from now on wait for all that `stream` has been given so far.
  virtual void follow(DeviceStream stream) = 0;
  void follow() { follow(nullptr); }

  /// The fence: what `stream` is given from now on waits for all that was started so far. The device waits,
  /// not the caller.
  virtual void hold(DeviceStream stream) = 0;
  void hold() { hold(nullptr); }

  /// Starts copies and returns at once. Host memory that is not pinned may make it wait.
  ///
  /// Ownership: memory at both ends must stay valid until the transfer has been waited for.
  [[nodiscard]] virtual std::unique_ptr<DeviceTransfer> start(std::span<const DeviceCopy> copies,
                                                              CopyDirection direction) = 0;

  /// Memory of the device for `bytes`, aligned to 256; null when the device has no room for it. It is freed
  /// when the copies are done that were started before its last owner went.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;

  /// Lets the device reach host memory without a detour until the result goes; null when the system refuses,
  /// which costs speed only.
  ///
  /// Ownership: the memory must stay valid as long as the result.
  [[nodiscard]] virtual std::shared_ptr<void> pin(std::span<std::byte> memory) = 0;
};

}  // namespace cairn
