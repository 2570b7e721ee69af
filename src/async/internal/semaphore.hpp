// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "cairn/async/awaitable.hpp"

namespace cairn::async {

class Permit;

/// Limits how much of something is in use at once: bytes, requests, open files.
///
/// Invariant: taken() <= capacity(), except that one acquisition larger than the whole capacity is granted alone, so
///            that it cannot wait for ever.
/// Threads:   every method may be called from any thread. Copies are the same semaphore.
class Semaphore {
 public:
  /// A capacity of 0 means no limit.
  explicit Semaphore(std::size_t capacity);

  /// Waits until `count` permits are free, in arrival order, and takes them all at once.
  ///
  /// Cancel: leaves the semaphore unchanged.
  [[nodiscard]] Awaitable<Permit> acquire(std::size_t count = 1);

  /// Takes `count` permits when they are free now and nobody waits; else returns an empty one.
  [[nodiscard]] Permit try_acquire(std::size_t count = 1);

  [[nodiscard]] std::size_t capacity() const noexcept;
  [[nodiscard]] std::size_t taken() const;
  [[nodiscard]] std::size_t waiting() const;

 private:
  friend class Permit;
  struct State;
  struct Place;

  static Awaitable<Permit> acquire(std::shared_ptr<State> state, std::size_t count);

  std::shared_ptr<State> state_;
};

/// What a Semaphore has granted, given back when it goes away.
class Permit {
 public:
  Permit() = default;

  ~Permit() { release(); }

  Permit(Permit&& other) noexcept;
  Permit& operator=(Permit&& other) noexcept;

  [[nodiscard]] std::size_t count() const noexcept { return count_; }

  explicit operator bool() const noexcept { return state_ != nullptr; }

  void release() noexcept;

 private:
  friend class Semaphore;
  Permit(std::shared_ptr<Semaphore::State> state, std::size_t count) noexcept;

  std::shared_ptr<Semaphore::State> state_;
  std::size_t count_ = 0;
};

}  // namespace cairn::async
