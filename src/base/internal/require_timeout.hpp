// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string_view>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn {

/// Errors: Errc::invalid_argument: it is below 0; names `what`.
inline void require_not_negative(std::chrono::nanoseconds timeout, std::string_view what) {
  if (timeout < timeout.zero()) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} is below 0: {:.3f} s", what, std::chrono::duration<double>(timeout).count()));
  }
}

}  // namespace cairn
