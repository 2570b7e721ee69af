// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn {

/// Says what a JSON string does not hold as it is.
enum class JsonEscapes : bool {
  needed,       ///< Control characters, `"` and `\`.
  unprintable,  ///< Also what is not printable, see is_printable: for texts that are shown in terminals.
};

/// How many bytes at the front of `text` a JSON string holds as they are. Looks at eight at a time: names of arrays
/// come in millions.
[[nodiscard]] std::size_t plain_json_bytes(std::string_view text) noexcept;

/// Appends `text` as a JSON string with its quotes. Where it is not UTF-8, it may get U+FFFD.
///
/// Source: RFC 8259, section 7.
void append_json_string(std::string& out, std::string_view text, JsonEscapes escapes = JsonEscapes::needed);
/// How many bytes it appends, of UTF-8, with the escapes that are needed.
[[nodiscard]] std::size_t json_string_bytes(std::string_view text);

/// Any bytes as a JSON string that may be shown; what is not UTF-8 becomes U+FFFD.
[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace cairn
