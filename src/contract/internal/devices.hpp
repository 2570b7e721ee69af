// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "cairn/staging/device_copier.hpp"

#include "staging/internal/buffer_pool.hpp"

namespace cairn::contract {

/// Moves arrays between the devices of a context and the host.
///
/// Threads: every method may be called from any thread.
class Devices {
 public:
  /// Errors: Errc::invalid_argument for a null pointer; Errc::already_exists for two copiers of one device.
  explicit Devices(std::vector<std::shared_ptr<DeviceCopier>> copiers);

  /// The copier of a device, or null.
  [[nodiscard]] DeviceCopier* copier(Device device) const noexcept;

  /// Pins staging memory for all devices, as a pool takes it from the system; empty when there are none.
  [[nodiscard]] staging::MemoryHook pin() const;

  /// Pins memory for all devices, or for none: returns null where one refuses. Empty when there are none.
  [[nodiscard]] staging::MemoryHook pin_for_all() const;

  /// Returns whether there is staging memory that a copier could not pin.
  [[nodiscard]] bool has_unpinned() const noexcept { return *has_unpinned_; }

 private:
  std::vector<std::shared_ptr<DeviceCopier>> copiers_;
  std::shared_ptr<std::atomic<bool>> has_unpinned_ =
      std::make_shared<std::atomic<bool>>(false);  // Pools outlive us.
};

}  // namespace cairn::contract
