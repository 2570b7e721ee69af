// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "cairn/async/awaitable.hpp"

#include "async/internal/event.hpp"
#include "async/internal/semaphore.hpp"

namespace cairn::staging {

/// The descriptors that the files of all saves and loads of a context share.
///
/// Progress: a file takes all its descriptors at once, and before any staging memory: a file that holds memory can
///           write or read. What is written and only waits for its handler to ask for its end is ended as soon as
///           somebody waits for a descriptor.
/// Threads:  every method may be called from any thread.
class FileBudget {
 public:
  explicit FileBudget(std::size_t descriptors);

  /// Another share of the same budget: a file of an operation that has none open does not wait for those of others.
  [[nodiscard]] FileBudget fair_share() const;

  /// Waits until so many descriptors may be opened, in arrival order.
  ///
  /// Cancel: leaves the budget unchanged.
  [[nodiscard]] Awaitable<async::Permit> acquire(std::size_t descriptors) const;

  /// Sets `event` when somebody waits for a descriptor: at once, if somebody does.
  void set_when_wanted(const async::Event& event) const;

  [[nodiscard]] std::size_t capacity() const noexcept;
  [[nodiscard]] std::size_t taken() const;

 private:
  struct State;

  static Awaitable<async::Permit> acquire(async::Semaphore semaphore, std::shared_ptr<State> state,
                                          std::size_t descriptors);

  async::Semaphore semaphore_;
  std::shared_ptr<State> state_;
};

}  // namespace cairn::staging
