// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace cairn::cuda {

/// A run of bytes that one block of threads copies.
struct Tile {
  const std::byte* from;
  std::byte* to;
  std::size_t bytes;
};

/// More go to another tile, so that all blocks have about the same to do.
inline constexpr std::size_t kMostTileBytes = std::size_t{64} << 10;

/// Copies all tiles with one kernel. The tiles must be in pinned memory, which the kernel reads.
cudaError_t copy_tiles(const Tile* tiles, std::size_t count, cudaStream_t stream);

}  // namespace cairn::cuda
