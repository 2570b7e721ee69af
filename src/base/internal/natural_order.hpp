// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace cairn {

/// Returns whether `a` comes before `b` when digits count as numbers: "step_9" before "step_10".
[[nodiscard]] bool is_naturally_less(std::string_view a, std::string_view b) noexcept;

}  // namespace cairn
