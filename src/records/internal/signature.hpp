// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace cairn::records {

/// The first bytes of every file of records: the hash of the header of its first block, which is always the same.
inline constexpr std::string_view kFileBegin = "\x83\xaf\x70\xd1\x0d\x88\x4a\x3f";

}  // namespace cairn::records
