// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "cairn/array/dtype.hpp"

namespace cairn::detail {

/// Returns what an array of a tree becomes of which a dtype is asked for; nothing: it stays as it is. A floating dtype
/// leaves integers and booleans alone.
[[nodiscard]] inline std::optional<DType> cast_dtype(DType stored, DType wanted) {
  if (!is_floating(wanted) || is_floating(stored)) {
    return wanted;
  }
  if (!is_complex(stored) || (wanted != DType::float32 && wanted != DType::float64)) {
    return std::nullopt;
  }
  return wanted == DType::float32 ? DType::complex64 : DType::complex128;
}

}  // namespace cairn::detail
