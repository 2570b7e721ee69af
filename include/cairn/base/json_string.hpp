// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn {

/// Appends `text`, which is UTF-8, as a JSON string with its quotes. Only control characters, `"` and `\` are escaped.
///
/// Source: RFC 8259, section 7.
void append_json_string(std::string& out, std::string_view text);
/// How many bytes it appends.
[[nodiscard]] std::size_t json_string_bytes(std::string_view text);

}  // namespace cairn
