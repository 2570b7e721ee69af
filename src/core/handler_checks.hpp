// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "cairn/contract/checkpointable.hpp"
#include "cairn/contract/registry.hpp"
#include "cairn/contract/save_context.hpp"
#include "cairn/contract/value_traits.hpp"
#include "cairn/core/context.hpp"

namespace cairn::core {

/// The copies that the handlers of one save are given; see ContextOptions::check_handlers.
///
/// Threads: one at a time, as the coroutines of a save.
class HandlerChecks {
 public:
  /// Null when the context does not ask for checks: then a save pays nothing.
  static std::unique_ptr<HandlerChecks> make(const ContextOptions& options, Snapshot snapshot,
                                             std::size_t items);

  HandlerChecks(Snapshot snapshot, std::size_t items) : snapshot_(snapshot), copies_(items) {}

  ~HandlerChecks();
  HandlerChecks(const HandlerChecks&) = delete;
  HandlerChecks& operator=(const HandlerChecks&) = delete;

  /// Returns what to give the handler: a copy, or the value itself where there is no way to copy it.
  const void* hand_over(std::size_t index, const Checkpointable& item, const ErasedHandler& handler);
  /// The handler's blocking phase is over.
  void watch(std::size_t index);

  /// The failure of a background phase, or null, with what the check has found.
  [[nodiscard]] std::exception_ptr judge(std::size_t index, std::exception_ptr failure) const;
  /// Returns what was not checked, and why; empty when everything was.
  [[nodiscard]] std::string not_checked() const;

 private:
  struct Copy {
    std::string name;
    std::shared_ptr<WatchedMemory> memory;  // Null: the handler has the value itself.
  };

  Snapshot snapshot_;
  std::vector<Copy> copies_;
  std::vector<std::string> left_out_;
};

}  // namespace cairn::core
