// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace cairn::proto {

/// Calls `body` with 0 … count - 1, on the calling thread and on others, `threads` in all.
///
/// Errors: the failure of the lowest number, after all calls have ended.
void in_parallel(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& body);

}  // namespace cairn::proto
