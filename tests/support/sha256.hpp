// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cairn::testing {

/// The hash as fixtures of other programs have it, in hexadecimal digits.
[[nodiscard]] std::string sha256(std::string_view bytes);

}  // namespace cairn::testing
