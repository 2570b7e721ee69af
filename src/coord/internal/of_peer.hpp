// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include "cairn/base/error.hpp"

namespace cairn::coord {

/// Whether an error of this code is of another rank, which it names.
[[nodiscard]] inline bool is_of_peer(const std::error_code& code) noexcept {
  return code == Errc::peer_failed || code == Errc::peer_lost;
}

}  // namespace cairn::coord
