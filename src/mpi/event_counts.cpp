// SPDX-License-Identifier: Apache-2.0
#include "mpi/event_counts.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>
#include <new>

#include "mpi/mpi_error.hpp"

namespace cairn::mpi {
namespace {

/// MAP_FAILED where that fails.
void* map_file(const std::string& path, int flags, std::size_t bytes) noexcept {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, S_IRUSR | S_IWUSR);
  if (file < 0) {
    return MAP_FAILED;
  }
  int error = EINTR;
  while (error == EINTR) {
    error = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));  // Memory without room is SIGBUS later.
  }
  void* const memory =
      error == 0 ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  ::close(file);
  return memory;
}

/// MAP_FAILED on all ranks of the machine where it fails on one. The name is gone when this returns, so nobody else
/// gets at the memory, and nothing is left behind by ranks that are killed.
void* map_together(MPI_Comm machine, const std::string& path, std::size_t bytes) {
  int rank = 0;
  check(MPI_Comm_rank(machine, &rank), "MPI_Comm_rank");
  void* memory = rank == 0 ? map_file(path, O_CREAT | O_EXCL, bytes) : MAP_FAILED;
  check(MPI_Barrier(machine), "MPI_Barrier");
  if (rank != 0) {
    memory = map_file(path, 0, bytes);
  }
  int is_mapped = memory != MAP_FAILED ? 1 : 0;
  check(MPI_Allreduce(MPI_IN_PLACE, &is_mapped, 1, MPI_INT, MPI_MIN, machine), "MPI_Allreduce");
  if (rank == 0) {
    ::unlink(path.c_str());
  }
  if (is_mapped == 0 && memory != MAP_FAILED) {
    ::munmap(memory, bytes);
  }
  return is_mapped != 0 ? memory : MAP_FAILED;
}

}  // namespace

EventCounts::EventCounts(MPI_Comm machine, const std::string& name, std::size_t ranks)
    : bytes_(ranks * sizeof(Count)) {
  void* memory = map_together(machine, "/dev/shm/" + name, bytes_);
  is_shared_ = memory != MAP_FAILED;
  if (!is_shared_) {
    memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  counts_ = static_cast<Count*>(memory);
}

EventCounts::~EventCounts() {
  ::munmap(counts_, bytes_);
}

void EventCounts::add(std::size_t rank) noexcept {
  ++counts_[rank];
  ::syscall(SYS_futex, &counts_[rank], FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void EventCounts::wait(std::size_t rank, std::uint32_t seen, std::chrono::nanoseconds latest) const noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(latest);
  const timespec timeout{seconds.count(), (latest - seconds).count()};
  ::syscall(SYS_futex, &counts_[rank], FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

}  // namespace cairn::mpi
