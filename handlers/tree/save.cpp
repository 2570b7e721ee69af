// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "cairn/handlers/rank_arrays.hpp"
#include "cairn/handlers/tree_handler.hpp"

namespace cairn {

// outlives: `value` is valid during this phase; what is kept of it, pieces own or the caller promised
Awaitable<Background<>> TreeHandler::save(SaveContext context, const Tree& value) const {
  RankArrays arrays(context, RankArrayOptions(context));
  arrays.add_leaves(value);
  co_return co_await std::move(arrays).write();
}

}  // namespace cairn
