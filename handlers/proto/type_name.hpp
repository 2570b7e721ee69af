// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cairn::detail {

/// The full name of a type, from the text of the file that has nothing but it in one line.
///
/// Errors: Errc::malformed_metadata, naming `path`.
[[nodiscard]] std::string parse_type_name(std::string text, std::string_view path);

}  // namespace cairn::detail
