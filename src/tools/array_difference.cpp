// SPDX-License-Identifier: Apache-2.0
#include "tools/internal/array_difference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "array/internal/cast.hpp"
#include "tools/internal/statistics.hpp"

namespace cairn::tools {
namespace {

using ByteSpan = std::span<const std::byte>;

template <class T>
T element(ByteSpan bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

/// Some elements of one array, as numbers.
class Numbers {
 public:
  Numbers(ByteSpan bytes, DType dtype) : bytes_(bytes), dtype_(dtype) {
    if (dtype != DType::int64 && dtype != DType::uint64 && !is_complex(dtype)) {
      values_.resize(bytes.size() * 8 / bits(dtype));
      cast(bytes, dtype, std::as_writable_bytes(std::span(values_)), DType::float64, Narrowing::allowed);
    }
  }

  [[nodiscard]] double distance_to(const Numbers& other, std::size_t i) const {
    switch (dtype_) {
      case DType::int64:
        return gap(element<std::int64_t>(bytes_, i), element<std::int64_t>(other.bytes_, i));
      case DType::uint64:
        return gap(element<std::uint64_t>(bytes_, i), element<std::uint64_t>(other.bytes_, i));
      case DType::complex64:
        return in_the_plane(element<std::complex<float>>(bytes_, i),
                            element<std::complex<float>>(other.bytes_, i));
      case DType::complex128:
        return in_the_plane(element<std::complex<double>>(bytes_, i),
                            element<std::complex<double>>(other.bytes_, i));
      default:
        return distance(values_[i], other.values_[i]);
    }
  }

  [[nodiscard]] double magnitude(std::size_t i) const {
    switch (dtype_) {
      case DType::int64:
        return std::abs(static_cast<double>(element<std::int64_t>(bytes_, i)));
      case DType::uint64:
        return static_cast<double>(element<std::uint64_t>(bytes_, i));
      case DType::complex64:
        return std::abs(std::complex<double>(element<std::complex<float>>(bytes_, i)));
      case DType::complex128:
        return std::abs(element<std::complex<double>>(bytes_, i));
      default:
        return std::abs(values_[i]);
    }
  }

  [[nodiscard]] bool has_bits_of(const Numbers& other, std::size_t i) const {
    if (is_packed(dtype_)) {  // Their values are as many as their bit patterns.
      return std::bit_cast<std::uint64_t>(values_[i]) == std::bit_cast<std::uint64_t>(other.values_[i]);
    }
    const std::size_t size = bits(dtype_) / 8;
    return std::memcmp(bytes_.data() + i * size, other.bytes_.data() + i * size, size) == 0;
  }

 private:
  /// Integers of 64 bits do not fit in a double; their distance is taken before it is rounded.
  template <class T>
  static double gap(T a, T b) {
    const auto low = static_cast<std::uint64_t>(std::min(a, b));
    return static_cast<double>(static_cast<std::uint64_t>(std::max(a, b)) - low);
  }

  template <class T>
  static double in_the_plane(std::complex<T> a, std::complex<T> b) {
    return std::hypot(distance(a.real(), b.real()), distance(a.imag(), b.imag()));
  }

  ByteSpan bytes_;
  DType dtype_;
  std::vector<double> values_;
};

void compare_block(ByteSpan a, ByteSpan b, DType dtype, std::optional<double> tolerance,
                   double relative_tolerance, ArrayDifference& difference) {
  const Numbers left(a, dtype);
  const Numbers right(b, dtype);
  const std::size_t count = a.size() * 8 / bits(dtype);
  for (std::size_t i = 0; i < count; ++i) {
    if (left.has_bits_of(right, i)) {
      continue;
    }
    const double gap = left.distance_to(right, i);
    if (is_close(gap, std::max(left.magnitude(i), right.magnitude(i)), tolerance, relative_tolerance)) {
      continue;
    }
    ++difference.differing;
    if (std::isnan(gap)) {
      difference.has_nan = true;
    } else {
      difference.largest = std::max(difference.largest, gap);
    }
  }
}

}  // namespace

double distance(double a, double b) noexcept {
  if (a == b || (std::isnan(a) && std::isnan(b))) {
    return 0;  // Infinities have no difference.
  }
  return std::abs(a - b);
}

bool is_close(double gap, double larger, std::optional<double> tolerance,
              double relative_tolerance) noexcept {
  // Next to an infinity any gap would be small.
  return (tolerance && gap <= *tolerance) ||
         (relative_tolerance > 0 && (gap == 0 || (std::isfinite(gap) && gap <= relative_tolerance * larger)));
}

void add_difference(std::span<const std::byte> a, std::span<const std::byte> b, DType dtype,
                    std::optional<double> tolerance, ArrayDifference& difference, double relative_tolerance) {
  difference.elements += a.size() * 8 / bits(dtype);
  const std::size_t block = kBlockElements * bits(dtype) / 8;
  while (!a.empty()) {
    const std::size_t size = std::min(block, a.size());
    if (std::memcmp(a.data(), b.data(), size) != 0) {
      compare_block(a.first(size), b.first(size), dtype, tolerance, relative_tolerance, difference);
    }
    a = a.subspan(size);
    b = b.subspan(size);
  }
}

}  // namespace cairn::tools
