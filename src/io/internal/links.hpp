// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>

namespace cairn::io {

/// Returns whether a link was refused because the file system, or a sandbox, has no hard links at all;
/// `result` is that of link(2).
inline bool has_no_links(int result) noexcept {
  return result == -EOPNOTSUPP || result == -EPERM || result == -ENOSYS;
}

}  // namespace cairn::io
