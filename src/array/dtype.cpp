// SPDX-License-Identifier: Apache-2.0
#include "cairn/array/dtype.hpp"

#include <algorithm>
#include <array>
#include <ostream>

namespace cairn {
namespace {

enum class Kind : std::uint8_t { none, boolean, integer, floating, complex };

struct Properties {
  std::string_view name;
  std::uint8_t bits;
  Kind kind;
};

// In the order of the enumerators.
constexpr std::array<Properties, 24> kProperties = {{
    {"?", 0, Kind::none},
    {"BOOL", 8, Kind::boolean},
    {"U8", 8, Kind::integer},
    {"U16", 16, Kind::integer},
    {"U32", 32, Kind::integer},
    {"U64", 64, Kind::integer},
    {"I8", 8, Kind::integer},
    {"I16", 16, Kind::integer},
    {"I32", 32, Kind::integer},
    {"I64", 64, Kind::integer},
    {"F16", 16, Kind::floating},
    {"BF16", 16, Kind::floating},
    {"F32", 32, Kind::floating},
    {"F64", 64, Kind::floating},
    {"C64", 64, Kind::complex},
    {"F8_E4M3", 8, Kind::floating},
    {"F8_E5M2", 8, Kind::floating},
    {"F8_E4M3FNUZ", 8, Kind::floating},
    {"F8_E5M2FNUZ", 8, Kind::floating},
    {"F8_E8M0", 8, Kind::floating},
    {"F6_E2M3", 6, Kind::floating},
    {"F6_E3M2", 6, Kind::floating},
    {"F4", 4, Kind::floating},
    {"C128", 128, Kind::complex},
}};
static_assert(kProperties.size() == static_cast<std::size_t>(kLastDType) + 1);
static_assert(std::ranges::max(kProperties, {}, &Properties::bits).bits == kMaxElementBytes * 8);

const Properties& properties(DType dtype) noexcept {
  return kProperties[is_valid(dtype) ? static_cast<std::size_t>(dtype) : 0];
}

}  // namespace

std::string_view name(DType dtype) noexcept {
  return properties(dtype).name;
}

std::optional<DType> parse_dtype(std::string_view name) noexcept {
  for (std::size_t number = 1; number < kProperties.size(); ++number) {
    if (kProperties[number].name == name) {
      return static_cast<DType>(number);
    }
  }
  return std::nullopt;
}

unsigned bits(DType dtype) noexcept {
  return properties(dtype).bits;
}

bool is_packed(DType dtype) noexcept {
  return is_valid(dtype) && bits(dtype) < 8;
}

bool is_floating(DType dtype) noexcept {
  return properties(dtype).kind == Kind::floating;
}

bool is_integer(DType dtype) noexcept {
  return properties(dtype).kind == Kind::integer;
}

std::ostream& operator<<(std::ostream& out, DType dtype) {
  return out << name(dtype);
}

}  // namespace cairn
