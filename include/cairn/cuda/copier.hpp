// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cairn/staging/device_copier.hpp"

namespace cairn::cuda {

struct CopierOptions {
  CopierOptions() = default;

  /// The number of the device, as CUDA counts.
  int device = 0;
  /// The `cudaStream_t` on which the program changes its arrays: what it was given before a save is in the
  /// save, what it is given afterwards is not. Null: the legacy default stream, which stands for all streams
  /// that were not made non-blocking.
  DeviceStream stream = nullptr;
  /// Most memory of the device that snapshots hold at a time. A snapshot ends the blocking phase in
  /// milliseconds, but takes as much memory as the arrays until they are written. 0: none are made.
  std::size_t snapshot_bytes = SIZE_MAX;
  /// Memory of the device that snapshots leave to the program; they are not made when less would be left.
  std::size_t keep_free_bytes = std::size_t{1} << 30;
};

/// A copier for one CUDA device, to go into ContextOptions::copiers. It has a non-blocking stream of its own,
/// of the lowest priority.
///
/// Errors: Errc::device_failure when there is no such device, or it does not work.
[[nodiscard]] std::shared_ptr<DeviceCopier> make_copier(const CopierOptions& options = {});

/// How many CUDA devices there are; 0 without a driver.
[[nodiscard]] int device_count() noexcept;

}  // namespace cairn::cuda
