// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

namespace cairn::verdicts {

/// The memory of the programs: what the library has given back cannot be touched without being seen.
///
/// Whole pages are lent. When one is given back, its protection goes: the next access raises SIGSEGV, which is counted
/// with the name of the lender, and the access goes on. It is lent again as late as possible, with other contents.
/// Threads: every method may be called from any thread. One for each process.
class GuardedMemory {
 public:
  static GuardedMemory& the();

  /// Most bytes of one loan.
  static constexpr std::size_t kMostBytes = std::size_t{10} << 20;

  /// Lends whole pages, `bytes` at least. `owner` is for reports.
  [[nodiscard]] std::byte* lend(std::size_t bytes, const std::string& owner);
  /// From here on nobody may touch it.
  void give_back(const std::byte* loan);

  /// Counts a transfer of the system from or to memory that is not lent, which the kernel refuses without a signal.
  void check_transfer(const void* data, std::size_t bytes);

  /// How often memory that was not lent was touched.
  [[nodiscard]] std::uint64_t touches() const { return touches_.load(); }
  /// The first touch since the last call, in words; nothing when there was none.
  [[nodiscard]] std::optional<std::string> take_touch();

 private:
  static constexpr std::size_t kSmallSlots = 192;
  static constexpr std::size_t kLargeSlots = 24;
  static constexpr std::size_t kSlots = kSmallSlots + kLargeSlots;
  static constexpr std::size_t kSmallBytes = std::size_t{512} << 10;
  static constexpr std::size_t kGuardBytes = 4096;  // Behind each slot; never lent.
  static constexpr std::size_t kSmallEnd = kSmallSlots * (kSmallBytes + kGuardBytes);
  static constexpr std::size_t kEnd = kSmallEnd + kLargeSlots * (kMostBytes + kGuardBytes);

  struct Slot {
    std::atomic<bool> is_lent{false};
    std::array<char, 96> owner{};
  };

  GuardedMemory();
  static void on_fault(int number, void* info, void* context);
  bool touch(const void* address) noexcept;
  [[nodiscard]] std::size_t slot_of(const void* address) const noexcept;
  [[nodiscard]] std::byte* memory_of(std::size_t slot) const noexcept;
  [[nodiscard]] static std::size_t bytes_of(std::size_t slot) noexcept {
    return slot < kSmallSlots ? kSmallBytes : kMostBytes;
  }

  std::byte* base_ = nullptr;
  std::array<Slot, kSlots> slots_;
  std::atomic<std::uint64_t> touches_{0};
  std::atomic<std::size_t> first_touched_{kSlots};
  std::mutex mutex_;  // Protects the queues.
  std::deque<std::size_t> small_;
  std::deque<std::size_t> large_;
};

}  // namespace cairn::verdicts
