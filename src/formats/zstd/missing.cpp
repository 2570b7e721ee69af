// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "formats/internal/zstd.hpp"

namespace cairn::formats {

bool can_read_zstd() noexcept {
  return false;
}

std::vector<std::byte> unpack_zstd(std::span<const std::byte> /*packed*/, std::uint64_t /*most_bytes*/,
                                   std::string_view name) {
  throw Error(Errc::feature_missing,
              fmt::format("{}: zstd: this library was built without libzstd (libzstd-dev)", name));
}

}  // namespace cairn::formats
