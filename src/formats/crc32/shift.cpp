// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>

#include "formats/internal/zip.hpp"

namespace cairn::formats {
namespace {

/// A polynomial over two elements has the coefficient of x^0 in its highest bit; products are modulo that of CRC-32.
constexpr std::uint32_t kPolynomial = 0xedb8'8320u;
constexpr std::uint32_t kOne = std::uint32_t{1} << 31;

constexpr std::uint32_t multiplied(std::uint32_t a, std::uint32_t b) noexcept {
  std::uint32_t product = 0;
  for (std::uint32_t power = kOne; power != 0; power >>= 1) {
    product ^= (a & power) != 0 ? b : 0;
    b = (b & 1u) != 0 ? b >> 1 ^ kPolynomial : b >> 1;
  }
  return product;
}

/// x^(2^n): those of larger n repeat.
constexpr std::array<std::uint32_t, 32> kPowers = [] {
  std::array<std::uint32_t, 32> powers{};
  powers[0] = kOne >> 1;
  for (std::size_t n = 1; n < powers.size(); ++n) {
    powers[n] = multiplied(powers[n - 1], powers[n - 1]);
  }
  return powers;
}();

}  // namespace

std::uint32_t shift_crc32(std::uint32_t sum, std::uint64_t bytes_behind) noexcept {
  std::size_t power = 3;  // A byte is x^8.
  for (; bytes_behind != 0; bytes_behind >>= 1, ++power) {
    if ((bytes_behind & 1u) != 0) {
      sum = multiplied(kPowers[power % kPowers.size()], sum);
    }
  }
  return sum;
}

}  // namespace cairn::formats
