// SPDX-License-Identifier: Apache-2.0
#include <libdeflate.h>

#include "formats/internal/zip.hpp"

namespace cairn::formats {

bool can_compute_crc32() noexcept {
  return true;
}

std::uint32_t update_crc32(std::uint32_t sum, std::span<const std::byte> bytes) {
  // Without bytes a null pointer would begin anew.
  return bytes.empty() ? sum : ::libdeflate_crc32(sum, bytes.data(), bytes.size());
}

}  // namespace cairn::formats
