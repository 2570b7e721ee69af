// SPDX-License-Identifier: Apache-2.0
#include "cli/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "array/internal/cast.hpp"
#include "cli/elements.hpp"

namespace cairn::cli {
namespace {

/// Elements as they lie there, which may not be aligned.
template <class T>
std::vector<T> copied(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace

void StatisticsGatherer::add(std::span<const std::byte> bytes) {
  const std::size_t block = kBlockElements * bits(dtype_) / 8;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(block, bytes.size()));
    bytes = bytes.subspan(part.size());
    if (dtype_ == DType::complex64) {
      add_complex<float>(part);
    } else if (dtype_ == DType::complex128) {
      add_complex<double>(part);
    } else if (dtype_ == DType::int64) {
      add_numbers<std::int64_t>(copied<std::int64_t>(part));
    } else if (dtype_ == DType::uint64) {
      add_numbers<std::uint64_t>(copied<std::uint64_t>(part));
    } else {
      std::vector<double> values(part.size() * 8 / bits(dtype_));
      cast(part, dtype_, std::as_writable_bytes(std::span(values)), DType::float64, Narrowing::allowed);
      add_numbers<double>(values);
    }
  }
}

template <class T>
void StatisticsGatherer::add_numbers(std::span<const T> values) {
  elements_ += values.size();
  for (const T value : values) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(value)) {
        ++nans_;
        continue;
      }
    }
    zeros_ += value == 0 ? 1 : 0;
    if (!min_ || value < std::get<T>(*min_)) {
      min_ = value;
    }
    if (!max_ || value > std::get<T>(*max_)) {
      max_ = value;
    }
    add_to_sum(static_cast<double>(value));
  }
}

template <class T>
void StatisticsGatherer::add_complex(std::span<const std::byte> bytes) {
  const std::vector<T> parts = copied<T>(bytes);
  elements_ += parts.size() / 2;
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    nans_ += std::isnan(parts[i]) || std::isnan(parts[i + 1]) ? 1 : 0;
    zeros_ += parts[i] == 0 && parts[i + 1] == 0 ? 1 : 0;
  }
}

// Source: A. Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", ZAMM 54 (1974).
void StatisticsGatherer::add_to_sum(double value) noexcept {
  const double sum = sum_ + value;
  lost_ += std::abs(sum_) >= std::abs(value) ? (sum_ - sum) + value : (value - sum) + sum_;
  sum_ = sum;
}

std::string StatisticsGatherer::text(const Number& number) const {
  if (const auto* integer = std::get_if<std::int64_t>(&number)) {
    return fmt::to_string(*integer);
  }
  if (const auto* integer = std::get_if<std::uint64_t>(&number)) {
    return fmt::to_string(*integer);
  }
  std::array<double, 8> values{};  // So many fill whole bytes, also of packed types.
  values.fill(std::get<double>(number));
  std::array<std::byte, sizeof(values)> bytes{};
  const auto used = std::span(bytes).first(bits(dtype_));
  cast(std::as_bytes(std::span(values)), DType::float64, used, dtype_, Narrowing::allowed);
  return Elements(used, dtype_).text(0);
}

Statistics StatisticsGatherer::result() const {
  Statistics result;
  result.elements = elements_;
  result.nans = nans_;
  result.zeros = zeros_;
  if (min_) {
    result.min = text(*min_);
    result.max = text(*max_);
    const auto count = static_cast<double>(elements_ - nans_);
    result.mean = (std::isfinite(sum_) ? sum_ + lost_ : sum_) / count;
  }
  return result;
}

}  // namespace cairn::cli
