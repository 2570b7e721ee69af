// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "tools/internal/text.hpp"

namespace cairn::cli {

/// How many columns `text` takes in a terminal: two for what East Asian writing and emoji show wide, none for marks
/// that join the character before.
[[nodiscard]] std::size_t display_width(std::string_view text) noexcept;

using tools::count_text;
using tools::size_text;

/// "90 s", "12 min", "36 h", "14 d": whole units, rounded down.
[[nodiscard]] std::string age_text(std::chrono::seconds age);

}  // namespace cairn::cli
