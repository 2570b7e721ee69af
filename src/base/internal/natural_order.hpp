// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cairn {

/// Returns whether `a` comes before `b` when digits count as numbers, each run of them apart: "step_9" before
/// "step_10", version "1.9" before "1.10".
[[nodiscard]] bool is_naturally_less(std::string_view a, std::string_view b) noexcept;

/// Returns whether `a` comes before `b` when numbers are decimal: "0.15" before "0.2", "1e-05" before "0.1". A sign
/// counts where nothing stands before it: "-10" before "-5", but "t-5" before "t-10".
[[nodiscard]] bool is_decimally_less(std::string_view a, std::string_view b) noexcept;

/// Returns `name` with '#' in place of each number, as is_decimally_less reads them.
[[nodiscard]] std::string without_decimals(std::string_view name);

}  // namespace cairn
