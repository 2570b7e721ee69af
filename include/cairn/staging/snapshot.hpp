// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cairn {

/// Who keeps the values of a save unchanged until they are on disk.
enum class Snapshot : std::uint8_t {
  copy,    ///< Cairn copies them during the blocking phase; the caller is free at `staged`.
  borrow,  ///< The caller promises not to change them until `committed`; nothing is copied.
  share,   ///< As borrow, for arrays that share ownership; they may be dropped at any time.
};

}  // namespace cairn
