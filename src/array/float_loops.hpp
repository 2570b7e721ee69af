// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace cairn {

// Conversions of single values without branches on the value, so that the compiler vectorises loops over them
// (selections become blends). The floating-point arithmetic in them is exact or rounds to nearest, ties to
// even: `cast` makes that the mode of its thread.

constexpr float bfloat16_to_float(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

constexpr std::uint16_t float_to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded =
      (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;  // A carry past the largest is infinity.
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

constexpr float float16_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t shifted = static_cast<std::uint32_t>(half & 0x7fffu) << 13;
  const std::uint32_t normal = shifted + (112u << 23);   // From bias 15 to bias 127.
  const std::uint32_t special = shifted + (224u << 23);  // Exponent 31 becomes 255; a NaN keeps its payload.
  // 2^-14 + m * 2^-24 in binary32, less the 2^-14 that the format does not have: exact.
  const float smallest = std::bit_cast<float>(113u << 23);
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted + (113u << 23)) - smallest);
  const std::uint32_t finite = shifted < (1u << 23) ? subnormal : normal;
  return std::bit_cast<float>(sign | (shifted >= (31u << 23) ? special : finite));
}

constexpr std::uint16_t float_to_float16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
  // The last place of 0.5 is 2^-24, that of binary16's subnormals: the addition rounds.
  const std::uint32_t half = std::bit_cast<std::uint32_t>(0.5f);
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - half;
  const std::uint32_t quiet = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  const std::uint32_t small = magnitude < (113u << 23) ? subnormal : normal;
  // 65520 is half-way between the largest value and 2^16: from there on it is infinity.
  const std::uint32_t finite = magnitude >= 0x477ff000u ? 0x7c00u : small;
  return static_cast<std::uint16_t>(((bits >> 16) & 0x8000u) | (magnitude > 0x7f800000u ? quiet : finite));
}

}  // namespace cairn
