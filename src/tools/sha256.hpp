// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace cairn::tools {

/// Hashes bytes that come in pieces: other programs' lists of hashes are of SHA-256.
///
/// Source: FIPS 180-4.
class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  /// Returns the hash as 64 hexadecimal digits; the object is of no use afterwards.
  [[nodiscard]] std::string hex() &&;

 private:
  static constexpr std::size_t kBlockBytes = 64;

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kBlockBytes> rest_{};  // The first bytes of a block that is not whole yet.
  std::uint64_t bytes_ = 0;
};

}  // namespace cairn::tools
