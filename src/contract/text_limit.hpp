// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cairn::contract {

/// The most bytes of a file that is written or read as one text: what `read_file` does not read `write_file` does not
/// write. Larger ones are for pieces.
inline constexpr std::uint64_t kMaxTextBytes = std::uint64_t{4} << 30;

}  // namespace cairn::contract
