// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include "formats/internal/zip.hpp"

namespace cairn::formats {

bool can_compute_crc32() noexcept {
  return true;
}

std::uint32_t update_crc32(std::uint32_t sum, std::span<const std::byte> bytes) {
  // Without bytes a null pointer would begin anew.
  return bytes.empty() ? sum
                       : static_cast<std::uint32_t>(
                             ::crc32_z(sum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace cairn::formats
