// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "cuda/copy_tiles.hpp"

namespace cairn::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kMostBlocks = 1 << 16;  // Each goes on to further tiles.

/// The threads of a block copy one tile: words of 16 bytes where both ends are aligned alike, else bytes.
__device__ void copy_tile(const Tile& tile) {
  const auto from = reinterpret_cast<std::uintptr_t>(tile.from);
  const auto to = reinterpret_cast<std::uintptr_t>(tile.to);
  std::size_t head = tile.bytes;
  std::size_t words = 0;
  if (from % sizeof(uint4) == to % sizeof(uint4)) {
    head = min(tile.bytes, (sizeof(uint4) - from % sizeof(uint4)) % sizeof(uint4));
    words = (tile.bytes - head) / sizeof(uint4);
  }
  const auto* words_from = reinterpret_cast<const uint4*>(tile.from + head);
  auto* words_to = reinterpret_cast<uint4*>(tile.to + head);
  for (std::size_t i = threadIdx.x; i < words; i += blockDim.x) {
    words_to[i] = words_from[i];
  }
  for (std::size_t i = threadIdx.x; i < head; i += blockDim.x) {
    tile.to[i] = tile.from[i];
  }
  for (std::size_t i = head + words * sizeof(uint4) + threadIdx.x; i < tile.bytes; i += blockDim.x) {
    tile.to[i] = tile.from[i];
  }
}

__global__ void copy_all(const Tile* tiles, std::size_t count) {
  for (std::size_t i = blockIdx.x; i < count; i += gridDim.x) {
    copy_tile(tiles[i]);
  }
}

}  // namespace

cudaError_t copy_tiles(const Tile* tiles, std::size_t count, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(std::min(count, kMostBlocks));
  copy_all<<<blocks, kThreads, 0, stream>>>(tiles, count);
  return cudaGetLastError();
}

}  // namespace cairn::cuda
