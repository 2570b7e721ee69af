// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::joint {

/// Things that must be the same on all ranks: what each is, for messages, and what it is here.
using Claims = std::vector<std::pair<std::string, std::string>>;

/// The claims of one rank, for the others. The first one is `what_is_done`: "save", "load".
[[nodiscard]] std::string encode_claims(std::uint32_t rank, std::string_view what_is_done,
                                        const Claims& claims);

/// Joins what ranks have encoded: the claims of one of them when all say the same of the same things, else how two of them
/// differ.
[[nodiscard]] std::string merge_claims(const std::vector<std::string>& texts);

/// "the path: rank 0 has 'a', rank 2 has 'b'"; nothing when all said the same. Refers to `merged`.
[[nodiscard]] std::optional<std::string_view> difference_in(std::string_view merged);

}  // namespace cairn::joint
