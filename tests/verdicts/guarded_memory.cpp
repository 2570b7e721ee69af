// SPDX-License-Identifier: Apache-2.0
#include "verdicts/guarded_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "cairn/base/error.hpp"

namespace cairn::verdicts {
namespace {

constexpr std::size_t kPageBytes = 4096;

struct sigaction earlier_action;  // What a fault elsewhere gets.

void protect(std::byte* memory, std::size_t bytes, int protection) {
  if (::mprotect(memory, bytes, protection) != 0) {
    throw_errno(errno, "mprotect", "guarded memory");
  }
}

}  // namespace

GuardedMemory& GuardedMemory::the() {
  static GuardedMemory& memory = *new GuardedMemory;  // Operations may outlive what is destroyed at the end.
  return memory;
}

GuardedMemory::GuardedMemory() {
  void* base = ::mmap(nullptr, kEnd, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    throw_errno(errno, "mmap", "guarded memory");
  }
  base_ = static_cast<std::byte*>(base);
  for (std::size_t i = 0; i < kSlots; ++i) {
    (i < kSmallSlots ? small_ : large_).push_back(i);
  }
  struct sigaction action {};
  action.sa_sigaction = [](int number, siginfo_t* info, void* context) { on_fault(number, info, context); };
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSEGV, &action, &earlier_action);
}

std::size_t GuardedMemory::slot_of(const void* address) const noexcept {
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - base_);
  if (address < base_ || offset >= kEnd) {
    return kSlots;
  }
  return offset < kSmallEnd ? offset / (kSmallBytes + kGuardBytes)
                            : kSmallSlots + (offset - kSmallEnd) / (kMostBytes + kGuardBytes);
}

std::byte* GuardedMemory::memory_of(std::size_t slot) const noexcept {
  return slot < kSmallSlots ? base_ + slot * (kSmallBytes + kGuardBytes)
                            : base_ + kSmallEnd + (slot - kSmallSlots) * (kMostBytes + kGuardBytes);
}

void GuardedMemory::on_fault(int number, void* info, void* /*context*/) {
  if (!the().touch(static_cast<siginfo_t*>(info)->si_addr)) {
    ::sigaction(number, &earlier_action, nullptr);  // The instruction faults again, and gets what it should.
  }
}

bool GuardedMemory::touch(const void* address) noexcept {
  const std::size_t slot = slot_of(address);
  if (slot == kSlots) {
    return false;
  }
  if (slots_[slot]
          .is_lent) {  // It was lent again a moment ago, or the first access to the page did this already.
    return true;
  }
  ++touches_;
  std::size_t none = kSlots;
  first_touched_.compare_exchange_strong(none, slot);
  const auto page = reinterpret_cast<std::uintptr_t>(address) / kPageBytes * kPageBytes;
  return ::mprotect(reinterpret_cast<void*>(page), kPageBytes, PROT_READ | PROT_WRITE) == 0;
}

void GuardedMemory::check_transfer(const void* data, std::size_t bytes) {
  const std::size_t slot = slot_of(data);
  if (bytes != 0 && slot != kSlots && !slots_[slot].is_lent) {
    ++touches_;
    std::size_t none = kSlots;
    first_touched_.compare_exchange_strong(none, slot);
  }
}

std::byte* GuardedMemory::lend(std::size_t bytes, const std::string& owner) {
  std::size_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    std::deque<std::size_t>& free = bytes <= kSmallBytes ? small_ : large_;
    if (free.empty() || bytes > kMostBytes) {
      throw Error(Errc::io_failure, "the harness has lent all of its memory");
    }
    number = free.front();
    free.pop_front();
  }
  Slot& slot = slots_[number];
  const std::size_t length = std::min(owner.size(), slot.owner.size() - 1);
  std::memcpy(slot.owner.data(), owner.data(), length);
  slot.owner[length] = '\0';
  protect(memory_of(number), bytes_of(number), PROT_READ | PROT_WRITE);
  slot.is_lent = true;
  return memory_of(number);
}

void GuardedMemory::give_back(const std::byte* loan) {
  const std::size_t number = slot_of(loan);
  slots_[number].is_lent = false;
  protect(memory_of(number), bytes_of(number), PROT_NONE);
  const std::lock_guard lock(mutex_);
  (number < kSmallSlots ? small_ : large_).push_back(number);
}

std::optional<std::string> GuardedMemory::take_touch() {
  const std::size_t slot = first_touched_.exchange(kSlots);
  return slot == kSlots ? std::nullopt : std::optional<std::string>(slots_[slot].owner.data());
}

}  // namespace cairn::verdicts
