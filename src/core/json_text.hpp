// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cairn::core {

/// `text` as a string of JSON, with its quotes. A file name may hold any bytes; JSON may not: what is no UTF-8
/// is replaced.
[[nodiscard]] std::string json_text(std::string_view text);

}  // namespace cairn::core
