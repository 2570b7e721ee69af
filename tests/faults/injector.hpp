// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "support/call_kind.hpp"

namespace cairn::faults {

/// What can be made to fail: calls of the C library and of liburing, requests in a ring, threads, memory.
using Op = testing::CallKind;
using testing::name;

inline constexpr std::size_t kOps = testing::kCallKinds;

enum class Effect : std::uint8_t {
  once,   ///< That one call fails.
  lasts,  ///< So do all later ones.
  cut,    ///< That one transfer moves fewer bytes than were asked for.
  slow,   ///< That one call takes until `release`, and is done then.
};

struct Fault {
  Op op = Op::open;
  std::uint64_t number = 1;  ///< Which of the calls, from 1.
  int error = 0;
  Effect effect = Effect::once;
};

/// "EIO", "ENOSPC"; the number of others.
[[nodiscard]] std::string name_of_error(int error);
[[nodiscard]] std::string describe(const Fault& fault);

/// What a call is told to do.
struct Order {
  int error = 0;  ///< To fail with; 0: nothing.
  bool is_cut = false;
};

/// Counts calls and lets one of them fail, while it is armed.
///
/// Threads: `next` and the counters may be called from any thread, the rest not while calls are made. Allocates
///          nothing.
class Injector {
 public:
  void arm(const Fault* fault) noexcept;
  void disarm() noexcept { is_armed_ = false; }
  /// Arms it again with the fault that it has, or not; returns whether it was.
  bool set_armed(bool is_armed) noexcept { return is_armed_.exchange(is_armed); }

  /// Counts a call, and says what it has to do; one that is to be slow ends when it is released.
  Order next(Op op) noexcept;
  /// As `next`, for requests in a ring: whether the fault hits is known before its answer is given.
  Order plan(Op op) noexcept { return order(op, false); }
  void count_hit() noexcept { ++hits_; }
  /// Counts a request for memory; whether it is to be refused.
  bool refuses(std::size_t bytes) noexcept;

  [[nodiscard]] std::uint64_t count(Op op) const noexcept { return counts_[static_cast<std::size_t>(op)]; }
  [[nodiscard]] std::uint64_t hits() const noexcept { return hits_; }
  /// Of the memory that was refused.
  [[nodiscard]] std::size_t refused_bytes() const noexcept { return refused_bytes_; }

  /// Returns whether a call is slow, and not released yet.
  [[nodiscard]] bool is_holding() const noexcept { return is_holding_; }
  void release() noexcept { is_released_ = true; }

  /// Remembers the file whose sync has failed.
  void failed_sync(int fd) noexcept;
  /// Looks whether a file is synced whose sync has failed before.
  void look_at_sync(int fd) noexcept;
  [[nodiscard]] bool is_synced_again() const noexcept { return is_synced_again_; }

  /// File systems such as NFS: a rename can neither refuse to replace nor exchange.
  std::atomic<bool> lacks_rename_modes{false};

  /// Memory in use: from operator new, and from Asio's allocator (which has the frames of coroutines).
  std::atomic<std::int64_t> news{0};
  std::atomic<std::int64_t> frames{0};

 private:
  Order order(Op op, bool is_hit) noexcept;
  void hold() noexcept;

  std::atomic<bool> is_armed_{false};
  const Fault* fault_ = nullptr;
  std::atomic<std::uint64_t> counts_[kOps] = {};
  std::atomic<std::uint64_t> hits_{0};
  std::atomic<std::size_t> refused_bytes_{0};
  std::atomic<std::uint64_t> failed_device_{0};
  std::atomic<std::uint64_t> failed_inode_{0};
  std::atomic<bool> is_synced_again_{false};
  std::atomic<bool> is_holding_{false};
  std::atomic<bool> is_released_{false};
};

Injector& injector() noexcept;

/// Lets nothing fail while it lives: for what the test does of its own in the middle of an operation.
class Truce {
 public:
  Truce() noexcept : was_armed_(injector().set_armed(false)) {}

  ~Truce() { injector().set_armed(was_armed_); }

  Truce(const Truce&) = delete;
  Truce& operator=(const Truce&) = delete;

 private:
  bool was_armed_;
};

}  // namespace cairn::faults
