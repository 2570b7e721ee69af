// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cairn::formats {

/// Returns the decimal digits of a little-endian number in two's complement, of any size. The time is the square of it.
[[nodiscard]] std::string decimal_digits(std::string_view bytes);

}  // namespace cairn::formats
