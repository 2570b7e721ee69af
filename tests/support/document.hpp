// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cairn::testing {

/// The rows of the first table below a heading of a document, without its head: what is in each cell, without
/// backticks.
///
/// `page` is the name of a file in docs/. Throws where that does not have the heading `## <heading>` with a table.
[[nodiscard]] std::vector<std::vector<std::string>> documented(std::string_view page,
                                                               std::string_view heading);

/// The same, of each row one cell.
[[nodiscard]] std::vector<std::string> documented(std::string_view page, std::string_view heading,
                                                  std::size_t column);

}  // namespace cairn::testing
