// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "cairn/async/awaitable.hpp"

namespace cairn::async {

class Permit;

/// Limits how much of something is in use at once: bytes, requests, open files.
///
/// Invariant: taken() <= capacity(), except that a share that holds nothing is granted what it asks for, at once: so
///            what is larger than the whole capacity cannot wait for ever, nor anybody for what others hold and never
///            give back.
/// Threads:   every method may be called from any thread. Copies are the same semaphore, and the same share.
class Semaphore {
 public:
  /// A capacity of 0 means no limit.
  explicit Semaphore(std::size_t capacity);

  /// Another share of the same semaphore: for somebody who must not have to wait until others give back all that they
  /// hold.
  [[nodiscard]] Semaphore fair_share() const;

  /// Waits until `count` permits are free, in arrival order, and takes them all at once. A share that holds nothing
  /// does not wait.
  ///
  /// Cancel: leaves the semaphore unchanged.
  [[nodiscard]] Awaitable<Permit> acquire(std::size_t count = 1);

  /// Takes `count` permits when `acquire` would not wait; else returns an empty one.
  [[nodiscard]] Permit try_acquire(std::size_t count = 1);

  [[nodiscard]] std::size_t capacity() const noexcept;
  [[nodiscard]] std::size_t taken() const;
  [[nodiscard]] std::size_t waiting() const;

 private:
  friend class Permit;
  struct State;
  struct FairShare;
  struct Waiter;
  struct QueueEntry;

  explicit Semaphore(std::shared_ptr<FairShare> share) noexcept;

  static Awaitable<Permit> acquire(std::shared_ptr<FairShare> share, std::size_t count);

  std::shared_ptr<FairShare> share_;
};

/// Permits that a Semaphore has granted, given back when this goes away.
class Permit {
 public:
  Permit() = default;

  ~Permit() { release(); }

  Permit(Permit&& other) noexcept;
  Permit& operator=(Permit&& other) noexcept;

  [[nodiscard]] std::size_t count() const noexcept { return count_; }

  explicit operator bool() const noexcept { return share_ != nullptr; }

  void release() noexcept;

 private:
  friend class Semaphore;
  Permit(std::shared_ptr<Semaphore::FairShare> share, std::size_t count) noexcept;

  std::shared_ptr<Semaphore::FairShare> share_;
  std::size_t count_ = 0;
};

}  // namespace cairn::async
