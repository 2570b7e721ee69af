// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::cli {

/// How many columns `text` takes in a terminal: two for what East Asian writing and emoji show wide, none for marks
/// that join the character before.
[[nodiscard]] std::size_t display_width(std::string_view text) noexcept;

/// "512 B", "4.0 GiB".
[[nodiscard]] std::string size_text(std::uint64_t bytes);

/// "1,234,567".
[[nodiscard]] std::string count_text(std::uint64_t count);

/// "1 array", "2 arrays": the count with its noun.
[[nodiscard]] std::string count_text(std::uint64_t count, std::string_view noun);

/// "90 s", "12 min", "36 h", "14 d": whole units, rounded down.
[[nodiscard]] std::string age_text(std::chrono::seconds age);

}  // namespace cairn::cli
