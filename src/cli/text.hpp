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

/// `text`, or its beginning and its end with "…" between them where it takes more than `columns`.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t columns);

/// `text` in lines of at most `columns`, which are broken at blanks; lines behind the first begin with `indent` blanks.
/// A word that is longer stays whole.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent = 0);

using tools::count_text;
using tools::size_text;

/// "90 s", "12 min", "36 h", "14 d": whole units, rounded down.
[[nodiscard]] std::string age_text(std::chrono::seconds age);

/// "0.4 s"; from ten seconds on as age_text.
[[nodiscard]] std::string duration_text(std::chrono::duration<double> duration);

}  // namespace cairn::cli
