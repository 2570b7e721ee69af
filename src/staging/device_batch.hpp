// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "staging/internal/device_pieces.hpp"

namespace cairn::staging {

/// Copies of many places, collected so that each device gets all of its own at once.
class DeviceBatch {
 public:
  void add(DeviceCopier& copier, const DeviceCopy& copy, const BytePlace& place);

  /// Errors: Errc::device_failure, naming device, stream and array.
  void start(CopyDirection direction, DeviceTransfers& started) const;

 private:
  struct Part {
    DeviceCopier* copier;
    const BytePlace* first;
    std::vector<DeviceCopy> copies;
  };

  std::vector<Part> parts_;  // One for each device: few.
};

}  // namespace cairn::staging
