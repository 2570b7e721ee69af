// SPDX-License-Identifier: Apache-2.0
#include "cairn/base/error.hpp"

#include "formats/internal/zip.hpp"

namespace cairn::formats {

bool can_compute_crc32() noexcept {
  return false;
}

std::uint32_t update_crc32(std::uint32_t, std::span<const std::byte>) {
  throw Error(Errc::feature_missing,
              "CRC-32: this library was built without libdeflate (libdeflate-dev) and zlib (zlib1g-dev)");
}

}  // namespace cairn::formats
