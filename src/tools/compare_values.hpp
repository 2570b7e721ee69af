// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cairn/contract/handler.hpp"
#include "cairn/tools/diff.hpp"

namespace cairn::tools {

/// Returns whether two values are the same bit by bit, or numbers that lie no further apart than the options allow.
[[nodiscard]] bool are_equal(const DescribedValue& a, const DescribedValue& b, const DiffOptions& options);

}  // namespace cairn::tools
