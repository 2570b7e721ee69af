// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>

#include "cairn/async/awaitable.hpp"

#include "async/internal/semaphore.hpp"

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
  static Awaitable<ByteLease> acquire(Semaphore semaphore, std::size_t bytes);

  Semaphore semaphore_;
};

/// Bytes granted by a ByteBudget, given back when it goes away.
class ByteLease {
 public:
  ByteLease() = default;

  [[nodiscard]] std::size_t bytes() const noexcept { return permit_.count(); }

  explicit operator bool() const noexcept { return static_cast<bool>(permit_); }

  void release() noexcept { permit_.release(); }

 private:
  friend class ByteBudget;
  explicit ByteLease(Permit permit) noexcept : permit_(std::move(permit)) {}

  Permit permit_;
};

}  // namespace cairn::async
