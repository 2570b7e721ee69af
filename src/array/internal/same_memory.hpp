// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "cairn/array/array.hpp"
#include "cairn/array/shared_memory.hpp"

namespace cairn {

/// Returns whether both are the same elements in the same memory, or both are missing.
[[nodiscard]] inline bool is_same_memory(const std::optional<Array>& a, const std::optional<Array>& b) {
  return a && b ? is_same_memory(a->view(), b->view()) : a.has_value() == b.has_value();
}

}  // namespace cairn
