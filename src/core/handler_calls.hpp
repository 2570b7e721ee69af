// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <optional>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/contract/handler.hpp"

#include "core/failures.hpp"
#include "core/handler_checks.hpp"
#include "core/operation.hpp"
#include "core/save_files.hpp"
#include "core/save_ranks.hpp"

namespace cairn::core {

/// The calls of the handlers of a save, one for each of its items, in two phases. What is left of them goes with this.
///
/// Threads: one at a time, as the coroutines of a save.
class HandlerCalls {
 public:
  /// Null `checks`: handlers are trusted. All of these outlive this.
  HandlerCalls(Operation& operation, SaveFiles& files, const SaveRanks& ranks, HandlerChecks* checks)
      : operation_(operation), files_(files), ranks_(ranks), checks_(checks) {}

  /// The blocking phases, to be awaited all at once.
  [[nodiscard]] std::vector<Awaitable<>> stage();
  /// Likewise the background phases of those.
  [[nodiscard]] std::vector<Awaitable<>> finish();

  /// Errors: Errc::handler_failed when a handler was caught after the end of its background phase.
  static void judge(SaveFiles& files, const HandlerChecks& checks);

 private:
  Awaitable<> stage_item(std::size_t index);
  Awaitable<> finish_item(std::size_t index);
  /// Throws a failure of an item as one of its handler, unless it is that of what ranks say to each other.
  [[noreturn]] void rethrow(const std::exception_ptr& failure, const SaveItem& item, Asked asked) const;

  Operation& operation_;
  SaveFiles& files_;
  const SaveRanks& ranks_;
  HandlerChecks* const checks_;
  std::vector<std::optional<Background<>>> backgrounds_;
};

}  // namespace cairn::core
