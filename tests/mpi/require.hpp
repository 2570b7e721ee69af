// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace cairn::testing {

/// Errors: std::runtime_error, which says the claim, where it is not right.
inline void require(bool is_right, const std::string& claim) {
  if (!is_right) {
    throw std::runtime_error(claim);
  }
}

}  // namespace cairn::testing
