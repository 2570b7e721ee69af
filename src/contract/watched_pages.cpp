// SPDX-License-Identifier: Apache-2.0
#include "contract/watched_pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/checked.hpp"

namespace cairn::contract {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMostQuarantined = 32;
constexpr std::size_t kMostPassed = 1000;  // Or a fault that comes again for other reasons would never end.

/// A lock that a signal handler may wait for: who holds it neither touches watched memory nor allocates any, so that
/// a thread never waits for itself.
class SpinLock {
 public:
  void lock() noexcept {
    while (is_held_.test_and_set(std::memory_order_acquire)) {
    }
  }
  void unlock() noexcept { is_held_.clear(std::memory_order_release); }

 private:
  std::atomic_flag is_held_;
};

// A signal handler and `operator delete` are given nothing but an address: whose it is, only the process can know.
constinit SpinLock list_lock;
constinit WatchedPages* first_pages = nullptr;
constinit std::atomic<std::size_t> listed_pages{0};
constinit std::size_t quarantined = 0;
struct sigaction earlier_action;

/// Passes a signal that is not about watched pages to the handler that would have got it without us.
void pass_on(int signal, siginfo_t* info, void* context) {
  if ((earlier_action.sa_flags & SA_SIGINFO) != 0) {
    earlier_action.sa_sigaction(signal, info, context);
    return;
  }
  if (earlier_action.sa_handler != SIG_DFL && earlier_action.sa_handler != SIG_IGN) {
    earlier_action.sa_handler(signal);
    return;
  }
  ::sigaction(signal, &earlier_action, nullptr);  // The instruction faults again, and meets this one.
  if (info->si_code <= 0) {
    ::raise(signal);  // It was sent, and would not come again by itself.
  }
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool is_let_pass = info->si_code > 0 && WatchedPages::let_pass(info->si_addr);
  errno = error;
  if (!is_let_pass) {
    pass_on(signal, info, context);
  }
}

void install_handler() {
  static std::once_flag installed;
  std::call_once(installed, [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    // Asked for first: another thread may fault as soon as the handler is there.
    if (::sigaction(SIGSEGV, nullptr, &earlier_action) != 0 || ::sigaction(SIGSEGV, &action, nullptr) != 0) {
      throw_errno(errno, "sigaction", "SIGSEGV");
    }
  });
}

}  // namespace

WatchedPages::WatchedPages(std::string_view whose)
    : late_touch_message_(fmt::format("cairn: the value that {} was given is used after its save was done\n",
                                      whose.empty() ? "a handler" : whose)) {
  const std::lock_guard lock(list_lock);
  next_ = first_pages;
  first_pages = this;
  ++listed_pages;
}

WatchedPages::~WatchedPages() {
  for (const std::span<std::byte> pages : pages_) {
    ::munmap(pages.data(), pages.size());
  }
}

void WatchedPages::retire(WatchedPages* pages) noexcept {
  pages->end();
  WatchedPages* oldest = nullptr;
  {
    const std::lock_guard lock(list_lock);
    pages->is_retired_ = true;
    if (pages->counted_ != 0) {
      return;  // Something that was allocated there lives on, and takes the pages with it when it goes.
    }
    pages->quarantine();
    if (++quarantined > kMostQuarantined) {
      oldest = take_oldest_quarantined();
    }
  }
  delete oldest;
}

void WatchedPages::quarantine() noexcept {
  is_quarantined_ = true;
  for (const std::span<std::byte> pages : pages_) {
    ::madvise(pages.data(), pages.size(), MADV_DONTNEED);
  }
  protect(PROT_NONE);
}

WatchedPages* WatchedPages::take_oldest_quarantined() noexcept {
  WatchedPages** oldest = nullptr;
  for (WatchedPages** place = &first_pages; *place != nullptr; place = &(*place)->next_) {
    oldest = (*place)->is_quarantined_ ? place : oldest;  // New ones come first.
  }
  WatchedPages* taken = *oldest;
  *oldest = taken->next_;
  --listed_pages;
  --quarantined;
  return taken;
}

std::span<std::byte> WatchedPages::add(std::size_t bytes) {
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), kPageBytes);
  void* memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw_errno(errno, "mmap", "the copy of a value");
  }
  const std::span<std::byte> fresh(static_cast<std::byte*>(memory), size);
  std::vector<std::span<std::byte>>
      pages;  // Made and freed outside of the lock, which `operator delete` takes.
  try {
    pages = pages_;
    pages.push_back(fresh);
  } catch (...) {
    ::munmap(memory, size);
    throw;
  }
  const std::lock_guard lock(list_lock);
  pages_.swap(pages);
  return fresh;
}

void WatchedPages::count() noexcept {
  const std::lock_guard lock(list_lock);
  ++counted_;
}

bool WatchedPages::forget(const void* memory) noexcept {
  if (listed_pages.load(std::memory_order_relaxed) == 0) {
    return false;
  }
  WatchedPages* last = nullptr;
  {
    const std::lock_guard lock(list_lock);
    WatchedPages* pages = find(memory);
    if (pages == nullptr) {
      return false;
    }
    if (pages->is_quarantined_) {
      return true;  // It was freed before.
    }
    --pages->counted_;
    last = pages->is_retired_ && pages->counted_ == 0 ? pages : nullptr;
  }
  if (last != nullptr) {
    retire(last);
  }
  return true;
}

void WatchedPages::watch() {
  install_handler();
  int error = 0;
  {
    const std::lock_guard lock(list_lock);
    is_watched_ = true;
    if (!protect(PROT_NONE)) {
      error = errno;
      is_watched_ = false;
      protect(PROT_READ | PROT_WRITE);
    }
  }
  if (error != 0) {
    throw_errno(error, "mprotect", "the copy of a value");
  }
}

void WatchedPages::end() noexcept {
  const std::lock_guard lock(list_lock);
  if (is_watched_) {
    is_watched_ = false;
    protect(PROT_READ | PROT_WRITE);
  }
}

const std::byte* WatchedPages::touched() const noexcept {
  const std::lock_guard lock(list_lock);
  return touched_;
}

bool WatchedPages::let_pass(const void* address) noexcept {
  const std::lock_guard lock(list_lock);
  WatchedPages* pages = find(address);
  if (pages == nullptr || ++pages->passed_ > kMostPassed) {
    return false;
  }
  if (pages->is_quarantined_) {
    static_cast<void>(
        !::write(STDERR_FILENO, pages->late_touch_message_.data(), pages->late_touch_message_.size()));
    return false;
  }
  if (!pages->is_watched_) {
    return true;  // It has just ended: the access succeeds now.
  }
  if (pages->touched_ == nullptr) {
    pages->touched_ = static_cast<const std::byte*>(address);
  }
  return pages->protect(PROT_READ | PROT_WRITE);  // Again, should another thread have been here a moment ago.
}

WatchedPages* WatchedPages::find(const void* address) noexcept {
  for (WatchedPages* pages = first_pages; pages != nullptr; pages = pages->next_) {
    if (pages->contains(address)) {
      return pages;
    }
  }
  return nullptr;
}

bool WatchedPages::contains(const void* address) const noexcept {
  return std::any_of(pages_.begin(), pages_.end(), [address](std::span<std::byte> pages) {
    return address >= pages.data() && address < pages.data() + pages.size();
  });
}

bool WatchedPages::protect(int protection) const noexcept {
  return std::all_of(pages_.begin(), pages_.end(), [protection](std::span<std::byte> pages) {
    return ::mprotect(pages.data(), pages.size(), protection) == 0;
  });
}

}  // namespace cairn::contract
