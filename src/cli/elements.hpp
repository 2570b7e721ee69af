// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cairn/array/dtype.hpp"

#include "base/internal/json_writer.hpp"

namespace cairn::cli {

/// How many elements are converted at once. A multiple of 8: whole bytes, also of packed types.
inline constexpr std::size_t kBlockElements = 4096;

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

}  // namespace cairn::cli
