// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "cairn/array/array.hpp"

namespace cairn {

/// Whether both are the same elements in the same memory, or both are missing.
[[nodiscard]] inline bool is_same_memory(const std::optional<Array>& a, const std::optional<Array>& b) {
  if (!a || !b) {
    return a.has_value() == b.has_value();
  }
  return a->view().data() == b->view().data() && a->shape() == b->shape() && a->dtype() == b->dtype() &&
         a->view().strides() == b->view().strides();
}

}  // namespace cairn
