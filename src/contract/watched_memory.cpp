// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

#include "cairn/contract/value_traits.hpp"

#include "base/internal/checked.hpp"
#include "contract/watched_pages.hpp"

namespace cairn {
namespace {

// A tree has a hundred thousand arrays, and a process 65,530 mappings: small blocks share pages.
constexpr std::size_t kFirstPagesBytes = std::size_t{64} << 10;
constexpr std::size_t kMostPagesBytes = std::size_t{64} << 20;

constinit thread_local WatchedMemory* allocating = nullptr;
/// Says whether the program has the operators that ask for watched memory.
constinit std::atomic<bool> has_operators{false};

}  // namespace

void* contract::allocate_watched(std::size_t bytes, std::size_t alignment) {
  if (!has_operators.load(std::memory_order_relaxed)) {
    has_operators.store(true, std::memory_order_relaxed);
  }
  WatchedMemory* memory = allocating;
  if (memory == nullptr) {
    return nullptr;
  }
  void* allocated = memory->allocate(bytes, alignment);
  memory->pages_->count();
  return allocated;
}

bool contract::free_watched(void* memory) noexcept {
  return contract::WatchedPages::forget(memory);
}

WatchedMemory::Allocations::Allocations(WatchedMemory* memory) noexcept : outer_(allocating) {
  allocating = memory;
}

WatchedMemory::Allocations::~Allocations() {
  allocating = outer_;
}

void WatchedMemory::Retire::operator()(contract::WatchedPages* pages) const noexcept {
  contract::WatchedPages::retire(pages);
}

WatchedMemory::WatchedMemory(std::string_view whose) : pages_(new contract::WatchedPages(whose)) {}

WatchedMemory::~WatchedMemory() {
  end();
}

std::byte* WatchedMemory::allocate(std::size_t bytes, std::size_t alignment, std::string_view what) {
  const Allocations elsewhere(nullptr);  // What is written down here is read while the pages are watched.
  auto at = round_up(reinterpret_cast<std::uintptr_t>(next_), alignment);
  if (next_ == nullptr || at > reinterpret_cast<std::uintptr_t>(end_) ||
      bytes > reinterpret_cast<std::uintptr_t>(end_) - at) {
    pages_bytes_ = std::clamp(pages_bytes_ * 2, kFirstPagesBytes, kMostPagesBytes);
    const std::span<std::byte> pages = pages_->add(std::max(bytes + alignment, pages_bytes_));
    next_ = pages.data();
    end_ = next_ + pages.size();
    at = round_up(reinterpret_cast<std::uintptr_t>(next_), alignment);
  }
  auto* memory = reinterpret_cast<std::byte*>(at);
  if (!what.empty()) {
    blocks_.push_back({memory, bytes, std::string(what)});
  }
  next_ = memory + std::max<std::size_t>(bytes, 1);
  return memory;
}

void WatchedMemory::reserve_one() {
  const Allocations elsewhere(nullptr);
  made_.reserve(made_.size() + 1);
}

void WatchedMemory::leave_out(std::string_view what) {
  const Allocations elsewhere(nullptr);
  left_out_.emplace_back(what);
}

bool WatchedMemory::has_unwatched() const noexcept {
  return may_allocate_ && !has_operators;
}

void WatchedMemory::watch() {
  pages_->watch();
}

std::optional<std::string> WatchedMemory::touched() const {
  const std::byte* address = pages_->touched();
  if (address == nullptr) {
    return std::nullopt;
  }
  const auto found = std::find_if(blocks_.begin(), blocks_.end(), [address](const Block& block) {
    return address >= block.begin && address < block.begin + block.bytes;
  });
  return found != blocks_.end() ? found->what : "the value";
}

void WatchedMemory::end() noexcept {
  pages_->end();
  while (!made_.empty()) {
    const auto [object, destroy] = made_.back();
    made_.pop_back();
    destroy(object);
  }
}

}  // namespace cairn
