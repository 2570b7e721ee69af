// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/internal/mutex.hpp"
#include "io/internal/chunk_hash.hpp"

namespace cairn::store {

/// The files of a save: the names that handlers have claimed, and the digests of those that are complete. Paths are
/// in the checkpoint.
///
/// Threads: every method may be called from any thread.
class WrittenFiles {
 public:
  using Digests = std::map<std::string, io::FileDigest>;

  /// Reserves a file's name, and counts its bytes.
  ///
  /// Errors: Errc::already_exists.
  void claim(const std::string& path, std::uint64_t bytes);
  /// Counts bytes that were not known when the name was claimed.
  void grow(std::uint64_t bytes) noexcept { bytes_ += bytes; }
  /// Enters a file that is written, hashed and synced.
  void add(io::FileDigest digest);

  /// Errors: Errc::handler_failed when a file whose path begins with `prefix` was claimed and never entered; `remark`
  ///         ends the text.
  void require_complete(const std::string& prefix, std::string_view remark) const;
  /// Returns what was entered; nothing of it is left here.
  [[nodiscard]] Digests take_digests();

  /// Returns the bytes of all files that were claimed.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::atomic<std::uint64_t> bytes_{0};

  mutable Mutex mutex_;
  std::set<std::string> claimed_ CAIRN_GUARDED_BY(mutex_);
  Digests digests_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn::store
