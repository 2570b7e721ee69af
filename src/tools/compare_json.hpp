// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cairn/tools/diff.hpp"

namespace cairn::tools {

/// Appends the differences of two JSON documents, below `title`; those of values are of this aspect.
///
/// Errors: as parse_json.
void compare_json(const std::string& title, Difference::Aspect aspect, std::string_view a, std::string_view b,
                  std::vector<Difference>& differences);

}  // namespace cairn::tools
