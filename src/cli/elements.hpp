// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/tools/array_reader.hpp"

#include "base/internal/json_writer.hpp"

namespace cairn::cli {

/// The elements of a contiguous array, one by one, of any dtype.
///
/// Ownership: views the bytes, which are whole elements.
class Elements {
 public:
  Elements(std::span<const std::byte> bytes, DType dtype);

  /// As people read it: with as few digits as tell it from its neighbours in its type; "true", "nan", "-inf", "1+2j".
  [[nodiscard]] std::string text(std::size_t i) const;
  /// The same as JSON; what JSON has no word for is a string, a complex number a list of two.
  void write(JsonWriter& writer, std::size_t i) const;

 private:
  template <class T>
  [[nodiscard]] T as(std::size_t i) const;
  [[nodiscard]] std::string small_float_text(double value) const;

  std::span<const std::byte> bytes_;
  DType dtype_;
  std::vector<double> small_;  ///< Of the floating-point types that C++ lacks.
};

/// A number of an array of this type, as Elements shows it; empty when there is none.
[[nodiscard]] std::string number_text(const std::optional<ArrayStatistics::Number>& number, DType dtype);

}  // namespace cairn::cli
