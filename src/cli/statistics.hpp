// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "cairn/array/dtype.hpp"

namespace cairn::cli {

/// Holds what an array holds. NaNs are counted and otherwise left out; of complex numbers only they and zeros
/// are told.
struct Statistics {
  std::uint64_t elements = 0;
  std::uint64_t nans = 0;
  std::uint64_t zeros = 0;
  std::string min;  ///< As Elements shows it; empty when there is no number.
  std::string max;
  std::optional<double> mean;
};

/// Gathers the statistics of an array that comes in pieces, in the memory of one block of a piece.
class StatisticsGatherer {
 public:
  explicit StatisticsGatherer(DType dtype) noexcept : dtype_(dtype) {}

  /// Whole elements, and whole bytes.
  void add(std::span<const std::byte> bytes);

  [[nodiscard]] Statistics result() const;

 private:
  using Number =
      std::variant<double, std::int64_t, std::uint64_t>;  ///< The first that holds every element exactly.

  template <class T>
  void add_numbers(std::span<const T> values);
  template <class T>
  void add_complex(std::span<const std::byte> bytes);
  void add_to_sum(double value) noexcept;
  [[nodiscard]] std::string text(const Number& number) const;

  DType dtype_;
  std::uint64_t elements_ = 0;
  std::uint64_t nans_ = 0;
  std::uint64_t zeros_ = 0;
  std::optional<Number> min_;
  std::optional<Number> max_;
  double sum_ = 0;
  double lost_ = 0;  ///< What the sum has lost by rounding.
};

}  // namespace cairn::cli
