// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cairn/async/awaitable.hpp"

namespace cairn {

/// Lets the processes of one job agree. Every rank calls the same methods in the same order, also after a
/// failure of its own: leaving early would leave the others waiting.
///
/// Threads: one call at a time.
class Coordinator {
 public:
  virtual ~Coordinator() = default;

  [[nodiscard]] virtual std::size_t rank() const noexcept = 0;
  [[nodiscard]] virtual std::size_t size() const noexcept = 0;

  /// The texts of all ranks, in their order, on every rank.
  [[nodiscard]] virtual Awaitable<std::vector<std::string>> gather(std::string text) = 0;
  /// The text of `root`, on every rank.
  [[nodiscard]] virtual Awaitable<std::string> broadcast(std::string text, std::size_t root) = 0;
};

/// The coordinator of a program of one process.
Coordinator& single_process();

}  // namespace cairn
