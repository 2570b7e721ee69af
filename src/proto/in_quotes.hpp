// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cairn::proto {

/// Returns a text in quotation marks, which `parse_path` reads again.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace cairn::proto
