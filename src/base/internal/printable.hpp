// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cairn {

/// Returns whether a terminal shows a code point and does not obey it: neither a control character of ASCII
/// or Latin-1, nor a line separator, nor a mark that turns the direction of writing.
[[nodiscard]] bool is_printable(char32_t code) noexcept;

/// `text` as a terminal may show it: what is not printable becomes "\n", "\x1b", "\u202e" and the like, bytes that
/// are not UTF-8 "\xff". All else stays, backslashes too: so twice is the same as once.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace cairn
