// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace cairn {

/// Copies bytes that nobody will read soon: large copies leave the processor's caches alone, which makes them
/// cheaper (no line is fetched only to be overwritten) and keeps what others have cached.
///
/// `to` and `from` must not overlap.
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

/// Copies one after the other, and waits for their stores once, at the end of its life: for a hundred thousand small
/// copies the waiting is a tenth of the time. Until then only the thread that copies sees the bytes.
class StreamCopies {
 public:
  StreamCopies() = default;
  StreamCopies(const StreamCopies&) = delete;
  StreamCopies& operator=(const StreamCopies&) = delete;
  ~StreamCopies();

  /// As stream_copy.
  void add(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
};

}  // namespace cairn
