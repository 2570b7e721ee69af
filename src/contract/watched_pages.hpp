// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::contract {

/// Pages that nobody may touch while they are watched, and the first touch of them.
///
/// The process has one handler of SIGSEGV for all of them. It is installed when the first ones are watched, stays,
/// and passes on what is not about watched pages to the handler before it.
/// Threads: one at a time; touches may come from any thread, and so may `forget`.
class WatchedPages {
 public:
  explicit WatchedPages(std::string_view whose);
  WatchedPages(const WatchedPages&) = delete;
  WatchedPages& operator=(const WatchedPages&) = delete;

  /// Gives the memory back, once all of it that was counted has been forgotten. The addresses stay taken for a while:
  /// a touch of them then ends the process, with words to stderr that say whose they were.
  static void retire(WatchedPages* pages) noexcept;

  /// Fresh pages, `bytes` at least. Not while they are watched.
  ///
  /// Errors: ENOMEM.
  std::span<std::byte> add(std::size_t bytes);

  /// Counts memory in the pages that others free; see `forget`.
  void count() noexcept;
  /// Returns whether `memory` was counted in any pages; if so, it is not any more.
  static bool forget(const void* memory) noexcept;

  /// Errors: OS errors; then nothing is watched.
  void watch();
  void end() noexcept;

  /// The address that was touched first; null when none was.
  [[nodiscard]] const std::byte* touched() const noexcept;

  /// If the address lies in watched pages: notes it, and lets it pass. For the handler of the signal.
  static bool let_pass(const void* address) noexcept;

 private:
  ~WatchedPages();

  /// These need the lock of the list.
  static WatchedPages* find(const void* address) noexcept;
  static WatchedPages* take_oldest_quarantined() noexcept;
  void quarantine() noexcept;
  [[nodiscard]] bool contains(const void* address) const noexcept;
  bool protect(int protection) const noexcept;

  // All of it is protected by the lock of the list.
  std::vector<std::span<std::byte>> pages_;
  std::size_t counted_ = 0;
  const std::byte* touched_ = nullptr;
  std::size_t passed_ = 0;
  bool is_watched_ = false;
  bool is_retired_ = false;
  bool is_quarantined_ = false;  // Nothing is left of it but its addresses.
  std::string late_touch_message_;
  WatchedPages* next_ = nullptr;
};

}  // namespace cairn::contract
