// SPDX-License-Identifier: Apache-2.0
#include "io/uring_ring.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

namespace cairn::io {
namespace {

constexpr unsigned kSingleIssuer = 1u << 12;  // Linux 6.0; liburing 2.2 does not know it yet.

// From best to plain: an older kernel answers -EINVAL to flags that it does not know. Not DEFER_TASKRUN: a process that
// is forbidden to enter its ring would never hear of the requests that the kernel holds already.
constexpr unsigned kSetupFlags[] = {
    IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN | kSingleIssuer,
    IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN,
    IORING_SETUP_CLAMP,
};

constexpr std::chrono::milliseconds kTryAgain{1};

// The kernel gives a closed ring's addresses to the next ring, which another thread may own. That orders the two, but
// liburing maps by system calls of its own, so a program under ThreadSanitizer would be told of a race. Rings counted
// as closed before they are unmapped, and looked at after one is mapped, show it the order.
std::atomic<unsigned> closed_rings{0};

int set_up(unsigned entries, io_uring& ring) noexcept {
  int result = -EINVAL;
  for (const unsigned flags : kSetupFlags) {
    result = io_uring_queue_init(entries, &ring, flags);
    if (result != -EINVAL) {
      break;
    }
  }
  static_cast<void>(closed_rings.load(std::memory_order_acquire));
  return result;
}

/// Returns whether the kernel has the operations that Cairn uses (Linux 5.6).
bool can_read_and_write(io_uring& ring) noexcept {
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  if (probe == nullptr) {
    return false;
  }
  const bool is_able = io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                       io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0 &&
                       io_uring_opcode_supported(probe, IORING_OP_FSYNC) != 0;
  io_uring_free_probe(probe);
  return is_able;
}

/// Lets the kernel start a thread for the ring, which is there for as long as the ring: every sync needs one. It
/// counts among the user's (RLIMIT_NPROC, pids.max), and where none may be started the kernel drops all that needs
/// it.
///
/// Returns 0, -ECANCELED when there can be no such thread, or with what the kernel refuses the ring.
int start_kernel_thread(io_uring& ring) noexcept {
  constexpr int kMostAttempts = 100;
  io_uring_sqe* sqe = io_uring_get_sqe(&ring);
  io_uring_prep_nop(sqe);
  sqe->flags |= IOSQE_ASYNC;  // Not at once, but by such a thread.
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const int entered = io_uring_submit_and_wait(&ring, 1);
    io_uring_cqe* cqe = nullptr;
    if (io_uring_peek_cqe(&ring, &cqe) == 0 && cqe != nullptr) {
      const int result = cqe->res;
      io_uring_cqe_seen(&ring, cqe);
      return result;
    }
    if (entered < 0 && is_refusal(-entered)) {
      return entered;
    }
    if (entered < 0 && entered != -EINTR) {
      std::this_thread::sleep_for(kTryAgain);
    }
  }
  return -EAGAIN;
}

/// Lets the kernel start a thread for each request that it holds. By itself it starts a few (four for each core), and
/// while those are stuck the others would wait. Kernels before Linux 5.15 keep their number.
void allow_threads(io_uring& ring, unsigned requests) noexcept {
  unsigned most[2] = {0, 0};  // For files, and for what may never end. Zero asks.
  if (io_uring_register_iowq_max_workers(&ring, most) == 0 && most[0] < requests) {
    most[0] = requests;
    most[1] = 0;
    static_cast<void>(io_uring_register_iowq_max_workers(&ring, most));
  }
}

}  // namespace

int open_ring(unsigned requests, io_uring& ring) noexcept {
  int result = set_up(requests + 1, ring);
  if (result < 0) {
    return result;
  }
  result = can_read_and_write(ring) ? start_kernel_thread(ring) : -ENOSYS;
  if (result < 0) {
    close_ring(ring);
  } else {
    allow_threads(ring, requests);
  }
  return result;
}

void close_ring(io_uring& ring) noexcept {
  closed_rings.fetch_add(1, std::memory_order_release);
  io_uring_queue_exit(&ring);
}

bool is_refusal(int error) noexcept {
  return error != EINTR && error != EBUSY && error != EAGAIN && error != ENOMEM;
}

}  // namespace cairn::io
