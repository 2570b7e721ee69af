// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace cairn {

/// Calls `body` for each number below `count`, on this thread and on others besides it, `threads` in all. Fewer do the
/// same where no more can be had. Blocks until all calls have ended.
///
/// Errors: what the first of the numbers threw whose call has failed; what had not begun by then is left out.
void parallel_for(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& body);

/// The same; what `prepare` returns for a number is called on the same thread, after that of each smaller number has
/// ended. At most `threads` numbers have begun and not ended at any time.
void parallel_in_order(std::size_t count, std::size_t threads,
                       const std::function<std::function<void()>(std::size_t)>& prepare);

}  // namespace cairn
