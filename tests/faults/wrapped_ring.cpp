// SPDX-License-Identifier: Apache-2.0
// Stands between the library and liburing. A request that is to fail is made one that does nothing before the kernel
// sees it, and its completion is given the error before the library sees that: so a write that fails has written
// nothing.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include <liburing.h>

#include "faults/injector.hpp"
#include "io/internal/engine.hpp"

using cairn::faults::Injector;
using cairn::faults::injector;
using cairn::faults::Op;
using cairn::faults::Order;

namespace {

constexpr unsigned kRingBlockBytes = 4096;

/// Requests that wait for their error; the ring has one thread, which is the only one here.
struct Victims {
  struct One {
    std::uint64_t request = 0;
    int error = 0;
  };

  std::array<One, 128> all{};

  void add(std::uint64_t request, int error) {
    const auto place = std::find_if(all.begin(), all.end(), [](const One& one) { return one.request == 0; });
    *place = {request, error};
  }

  /// Returns the error and forgets it; 0 when the request is none of these.
  int take(std::uint64_t request) {
    const auto place =
        std::find_if(all.begin(), all.end(), [&](const One& one) { return one.request == request; });
    return place == all.end() ? 0 : (place->request = 0, place->error);
  }
};

thread_local Victims victims;

Op op_of(const io_uring_sqe& entry) {
  return entry.opcode == IORING_OP_READ ? Op::ring_read
                                        : (entry.opcode == IORING_OP_WRITE ? Op::ring_write : Op::ring_sync);
}

/// The request for a wake-up has no data of its own.
void prepare(io_uring_sqe& entry) {
  if (entry.user_data == 0 || entry.opcode == IORING_OP_NOP) {
    return;
  }
  const Op op = op_of(entry);
  if (op == Op::ring_sync) {
    injector().look_at_sync(entry.fd);
  }
  const Order order = injector().plan(op);
  if (order.is_cut && op != Op::ring_sync && entry.len > kRingBlockBytes) {
    entry.len = entry.len / 2 / kRingBlockBytes * kRingBlockBytes;
    injector().count_hit();
  } else if (order.error != 0) {
    victims.add(entry.user_data, order.error);
    entry.opcode = IORING_OP_NOP;
    entry.rw_flags = 0;
  }
}

void prepare_all(io_uring& ring) {
  for (unsigned i = ring.sq.sqe_head; i != ring.sq.sqe_tail; ++i) {
    prepare(ring.sq.sqes[i & *ring.sq.kring_mask]);
  }
}

void complete_all(io_uring& ring) {
  const unsigned tail = std::atomic_ref(*ring.cq.ktail).load(std::memory_order_acquire);
  for (unsigned i = *ring.cq.khead; i != tail; ++i) {
    io_uring_cqe& entry = ring.cq.cqes[i & *ring.cq.kring_mask];
    const int error = entry.user_data == 0 ? 0 : victims.take(entry.user_data);
    if (error != 0) {
      entry.res = -error;
      injector().count_hit();
      const auto* request = reinterpret_cast<const cairn::io::Request*>(entry.user_data);
      if (request->operation == cairn::io::Operation::sync_data) {
        injector().failed_sync(request->fd);
      }
    }
  }
}

}  // namespace

extern "C" {

int __real_io_uring_queue_init(unsigned, io_uring*, unsigned);
io_uring_probe* __real_io_uring_get_probe_ring(io_uring*);
int __real_io_uring_submit_and_wait(io_uring*, unsigned);
int __real___io_uring_get_cqe(io_uring*, io_uring_cqe**, unsigned, unsigned, sigset_t*);

int __wrap_io_uring_queue_init(unsigned entries, io_uring* ring, unsigned flags) {
  const int error = injector().next(Op::make_ring).error;
  return error != 0 ? -error : __real_io_uring_queue_init(entries, ring, flags);
}

io_uring_probe* __wrap_io_uring_get_probe_ring(io_uring* ring) {
  return injector().next(Op::probe_ring).error != 0 ? nullptr : __real_io_uring_get_probe_ring(ring);
}

int __wrap_io_uring_submit_and_wait(io_uring* ring, unsigned count) {
  if (const int error = injector().next(Op::enter_ring).error; error != 0) {
    return -error;
  }
  prepare_all(*ring);
  const int result = __real_io_uring_submit_and_wait(ring, count);
  complete_all(*ring);
  return result;
}

int __wrap___io_uring_get_cqe(io_uring* ring, io_uring_cqe** entry, unsigned submitted, unsigned count,
                              sigset_t* mask) {
  const int result = __real___io_uring_get_cqe(ring, entry, submitted, count, mask);
  complete_all(*ring);
  return result;
}

}  // extern "C"
