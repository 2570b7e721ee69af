// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "cairn/base/some_ranks.hpp"

namespace cairn::coord {

/// Appends them to a message: count u64, how many are named u8, those u32.
void put_ranks(std::string& text, const SomeRanks& ranks);
/// Errors: Errc::malformed_metadata.
[[nodiscard]] SomeRanks take_ranks(std::string_view& text);

}  // namespace cairn::coord
