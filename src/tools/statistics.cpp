// SPDX-License-Identifier: Apache-2.0
#include "tools/internal/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "array/internal/cast.hpp"
#include "tools/internal/array_stream.hpp"

namespace cairn::tools {
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
  found_.elements += values.size();
  for (const T value : values) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(value)) {
        ++found_.nans;
        continue;
      }
    }
    found_.zeros += value == 0 ? 1 : 0;
    if (!found_.min || value < std::get<T>(*found_.min)) {
      found_.min = value;
    }
    if (!found_.max || value > std::get<T>(*found_.max)) {
      found_.max = value;
    }
    add_to_sum(static_cast<double>(value));
  }
}

template <class T>
void StatisticsGatherer::add_complex(std::span<const std::byte> bytes) {
  const std::vector<T> parts = copied<T>(bytes);
  found_.elements += parts.size() / 2;
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    found_.nans += std::isnan(parts[i]) || std::isnan(parts[i + 1]) ? 1 : 0;
    found_.zeros += parts[i] == 0 && parts[i + 1] == 0 ? 1 : 0;
  }
}

// Source: A. Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", ZAMM 54 (1974).
void StatisticsGatherer::add_to_sum(double value) noexcept {
  const double sum = sum_ + value;
  lost_ += std::abs(sum_) >= std::abs(value) ? (sum_ - sum) + value : (value - sum) + sum_;
  sum_ = sum;
}

ArrayStatistics StatisticsGatherer::result() const {
  ArrayStatistics result = found_;
  if (found_.min) {
    const auto count = static_cast<double>(found_.elements - found_.nans);
    const double sum = std::isfinite(sum_) ? sum_ + lost_ : sum_;
    result.mean = std::isnan(sum) ? std::abs(sum) : sum / count;  // That of both infinities has no sign.
  }
  return result;
}

}  // namespace cairn::tools

namespace cairn {

std::vector<ArrayStatistics> ArrayReader::statistics(
    std::span<const std::string> arrays,
    const std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>& progress) const {
  std::vector<tools::Region> regions;
  std::vector<tools::StatisticsGatherer> gatherers;
  std::uint64_t total_bytes = 0;
  std::uint64_t done_bytes = 0;
  for (const std::string& array : arrays) {
    regions.push_back(tools::whole_region(array, form(array)));
    gatherers.emplace_back(regions.back().dtype);
    total_bytes += regions.back().size_bytes();
  }
  tools::ArrayStream stream(*this, std::move(regions));
  while (const std::optional<tools::RegionPiece> piece = stream.next()) {
    gatherers[piece->region].add(piece->bytes);
    done_bytes += piece->bytes.size();
    if (progress) {
      progress(done_bytes, total_bytes);
    }
  }
  std::vector<ArrayStatistics> statistics;
  for (const tools::StatisticsGatherer& gatherer : gatherers) {
    statistics.push_back(gatherer.result());
  }
  return statistics;
}

}  // namespace cairn
