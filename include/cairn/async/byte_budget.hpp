// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "cairn/async/awaitable.hpp"

namespace cairn::async {

class ByteLease;

/// Limits the bytes in flight between the blocking and the background phase.
///
/// Invariant: leased_bytes() <= capacity_bytes(), except that one lease larger than the whole capacity is
///            granted alone, so that a huge array cannot wait for ever.
/// Threads:   every method may be called from any thread. Copies are the same budget.
class ByteBudget {
 public:
  /// A capacity of 0 means no limit.
  explicit ByteBudget(std::size_t capacity_bytes);

  /// Waits until `bytes` fit, in arrival order, and returns a lease that gives them back.
  ///
  /// Cancel: leaves the budget unchanged.
  /// Errors: Errc::closed when close() was called before the lease was granted.
  [[nodiscard]] Awaitable<ByteLease> acquire(std::size_t bytes);

  /// Returns a lease when `bytes` fit now and nobody waits; else an empty one.
  [[nodiscard]] ByteLease try_acquire(std::size_t bytes);

  /// Refuses all further leases, also to those who wait. Leases that were granted stay good.
  void close();

  [[nodiscard]] std::size_t capacity_bytes() const noexcept;
  [[nodiscard]] std::size_t leased_bytes() const;
  [[nodiscard]] std::size_t waiting() const;

 private:
  friend class ByteLease;
  struct State;
  struct Place;

  static Awaitable<ByteLease> acquire(std::shared_ptr<State> state, std::size_t bytes);

  std::shared_ptr<State> state_;
};

/// Bytes granted by a ByteBudget, given back when it goes away.
class ByteLease {
 public:
  ByteLease() = default;

  ~ByteLease() { release(); }

  ByteLease(ByteLease&& other) noexcept;
  ByteLease& operator=(ByteLease&& other) noexcept;

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  explicit operator bool() const noexcept { return state_ != nullptr; }

  void release() noexcept;

 private:
  friend class ByteBudget;
  ByteLease(std::shared_ptr<ByteBudget::State> state, std::size_t bytes) noexcept;

  std::shared_ptr<ByteBudget::State> state_;
  std::size_t bytes_ = 0;
};

}  // namespace cairn::async
