// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include <mpi.h>

namespace cairn::mpi {

/// Lets a thread sleep until another rank of its machine has something for it. MPI has no call that waits without
/// looking for packets again and again, so the ranks of one machine count events in memory that they share: one count
/// for each rank of the job.
///
/// 1. The thread reads the count of its rank, and then does all that there is to do.
/// 2. It sleeps until that count is another one than it has read, which it may be already.
/// 3. A rank that has something for another one adds to the count of that one, which wakes the thread (a futex).
///
/// A count means nothing but "look once more". A rank that dies, or writes anything there, keeps nobody from going on.
/// Threads: every method may be called from any thread.
class EventCounts {
 public:
  /// The ranks of `machine` make theirs together: `name` is theirs alone, `ranks` are those of the whole job.
  ///
  /// Errors: Errc::io_failure with MPI's own words; std::bad_alloc.
  EventCounts(MPI_Comm machine, const std::string& name, std::size_t ranks);
  ~EventCounts();
  EventCounts(const EventCounts&) = delete;
  EventCounts& operator=(const EventCounts&) = delete;

  /// Returns whether ranks of this machine wake each other. Else the memory is this process's own, and a rank
  /// wakes itself only.
  [[nodiscard]] bool is_shared() const noexcept { return is_shared_; }

  [[nodiscard]] std::uint32_t of(std::size_t rank) const noexcept { return counts_[rank]; }
  void add(std::size_t rank) noexcept;
  /// Returns when the count of `rank` is not `seen`, or when `latest` has passed; sometimes earlier.
  void wait(std::size_t rank, std::uint32_t seen, std::chrono::nanoseconds latest) const noexcept;

 private:
  using Count = std::atomic<std::uint32_t>;
  static_assert(Count::is_always_lock_free && sizeof(Count) == sizeof(std::uint32_t));

  const std::size_t bytes_;
  bool is_shared_ = false;
  Count* counts_ = nullptr;  // All zero at first.
};

}  // namespace cairn::mpi
