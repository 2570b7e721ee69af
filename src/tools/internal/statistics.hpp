// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cairn/array/dtype.hpp"
#include "cairn/tools/array_reader.hpp"

namespace cairn::tools {

/// How many elements are converted at once. A multiple of 8: whole bytes, also of packed types.
inline constexpr std::size_t kBlockElements = 4096;

/// Gathers the statistics of an array that comes in pieces, in the memory of one block of a piece.
class StatisticsGatherer {
 public:
  explicit StatisticsGatherer(DType dtype) noexcept : dtype_(dtype) {}

  /// Takes whole elements, and whole bytes.
  void add(std::span<const std::byte> bytes);

  [[nodiscard]] ArrayStatistics result() const;

 private:
  template <class T>
  void add_numbers(std::span<const T> values);
  template <class T>
  void add_complex(std::span<const std::byte> bytes);
  void add_to_sum(double value) noexcept;

  DType dtype_;
  ArrayStatistics found_;  ///< Without the mean.
  double sum_ = 0;
  double lost_ = 0;  ///< What the sum has lost by rounding.
};

}  // namespace cairn::tools
