// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

/// Returns whether `text` is well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
///
/// Source: Unicode 15, table 3-7.
[[nodiscard]] bool is_valid_utf8(std::string_view text) noexcept;

/// How many bytes at the front of `text` are well-formed: all, or up to the first that are not.
[[nodiscard]] std::size_t valid_utf8_bytes(std::string_view text) noexcept;

/// Takes one code point off the front of `text`, which is not empty; one byte and nothing when no UTF-8 is there.
[[nodiscard]] std::optional<char32_t> take_code_point(std::string_view& text) noexcept;

/// Appends a code point that is not a surrogate.
void append_code_point(std::string& out, char32_t code);

}  // namespace cairn
