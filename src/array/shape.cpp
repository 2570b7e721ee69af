// SPDX-License-Identifier: Apache-2.0
#include "cairn/array/shape.hpp"

#include <limits>
#include <ostream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"

#include "base/internal/checked.hpp"

namespace cairn {
namespace {

// Sizes stay below 2^63, so that byte offsets and strides fit in signed numbers.
constexpr std::uint64_t kMaxCount = std::numeric_limits<std::int64_t>::max();

template <class T>
std::string join(const Dimensions<T>& values) {
  return fmt::format("[{}]", fmt::join(values.begin(), values.end(), ", "));
}

// The product of the extents that are not zero.
std::optional<std::uint64_t> nonzero_product(std::span<const std::uint64_t> shape) noexcept {
  std::uint64_t product = 1;
  for (const std::uint64_t extent : shape) {
    if (extent == 0) {
      continue;
    }
    const auto next = checked_multiply(product, extent);
    if (!next || *next > kMaxCount) {
      return std::nullopt;
    }
    product = *next;
  }
  return product;
}

bool has_zero(std::span<const std::uint64_t> shape) noexcept {
  return std::find(shape.begin(), shape.end(), std::uint64_t{0}) != shape.end();
}

}  // namespace

void detail::check_rank(std::size_t rank) {
  if (rank > kMaxRank) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} dimensions, but at most {} are supported", rank, kMaxRank));
  }
}

std::optional<std::uint64_t> element_count(const Shape& shape) noexcept {
  const auto product = nonzero_product(shape);
  if (product && has_zero(shape)) {
    return 0;
  }
  return product;
}

std::optional<std::uint64_t> byte_count(DType dtype, std::span<const std::uint64_t> shape) noexcept {
  const unsigned element_bits = bits(dtype);
  const auto product = nonzero_product(shape);
  if (!product || element_bits == 0) {
    return std::nullopt;
  }
  const bool is_whole = element_bits % 8 == 0;  // Else packed: count in bits.
  const auto total = checked_multiply<std::uint64_t>(*product, is_whole ? element_bits / 8 : element_bits);
  if (!total || *total > kMaxCount) {
    return std::nullopt;
  }
  if (has_zero(shape)) {
    return 0;
  }
  if (is_whole) {
    return total;
  }
  return *total % 8 == 0 ? std::optional(*total / 8) : std::nullopt;
}

std::uint64_t checked_byte_count(std::string_view array, DType dtype, const Shape& shape) {
  const auto bytes = byte_count(dtype, shape);
  if (!bytes) {
    throw Error(Errc::malformed_metadata,
                fmt::format("'{}': {} elements of shape {} are not a whole number of bytes below 2^63", array,
                            name(dtype), to_string(shape)));
  }
  return *bytes;
}

Strides row_major_strides(DType dtype, const Shape& shape) {
  if (!byte_count(dtype, shape)) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} elements of shape {} are not a whole number of bytes below 2^63", name(dtype),
                            to_string(shape)));
  }
  Strides strides(shape.size(), 0);
  if (is_packed(dtype)) {
    return strides;
  }
  auto stride = static_cast<std::int64_t>(bits(dtype) / 8);
  for (std::size_t dimension = shape.size(); dimension-- > 0;) {
    strides[dimension] = stride;
    stride *= static_cast<std::int64_t>(std::max<std::uint64_t>(shape[dimension], 1));
  }
  return strides;
}

Strides strides_in_elements(DType dtype, const Strides& elements) {
  if (is_packed(dtype)) {
    throw Error(Errc::invalid_argument,
                fmt::format("arrays of {} have no strides: several elements share a byte", name(dtype)));
  }
  Strides strides(elements.size(), 0);
  for (std::size_t dimension = 0; dimension < elements.size(); ++dimension) {
    const auto bytes = checked_multiply(elements[dimension], static_cast<std::int64_t>(bits(dtype) / 8));
    if (!bytes) {
      throw Error(Errc::invalid_argument, fmt::format("{} elements of {} do not fit in 63 bits of bytes",
                                                      elements[dimension], name(dtype)));
    }
    strides[dimension] = *bytes;
  }
  return strides;
}

std::string to_string(const Shape& shape) {
  return join(shape);
}

std::string to_string(const Strides& strides) {
  return join(strides);
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << to_string(shape);
}

std::ostream& operator<<(std::ostream& out, const Strides& strides) {
  return out << to_string(strides);
}

}  // namespace cairn
