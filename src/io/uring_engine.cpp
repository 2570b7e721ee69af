// SPDX-License-Identifier: Apache-2.0
#include "io/uring_engine.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include <liburing.h>

#include "cairn/base/error.hpp"
#include "cairn/base/thread.hpp"

#include "io/request_queue.hpp"

namespace cairn::io {
namespace {

// liburing 2.2 does not know them yet; the values are the kernel's.
constexpr unsigned kSingleIssuer = 1u << 12;  // Linux 6.0
constexpr unsigned kDeferTaskrun = 1u << 13;  // Linux 6.1

// From best to plain: an older kernel answers -EINVAL to flags that it does not know.
constexpr unsigned kSetupFlags[] = {
    IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL | kSingleIssuer | kDeferTaskrun,
    IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN,
    IORING_SETUP_CLAMP,
};

int open_ring(unsigned entries, io_uring& ring) noexcept {
  int result = -EINVAL;
  for (const unsigned flags : kSetupFlags) {
    result = io_uring_queue_init(entries, &ring, flags);
    if (result != -EINVAL) {
      return result;
    }
  }
  return result;
}

/// Whether the kernel has the operations that Cairn uses (Linux 5.6).
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

/// One ring and the one thread that touches it. Other threads leave requests in the inbox and wake it through
/// an eventfd, on which a read is always pending in the ring; so the thread sleeps in the kernel when idle.
class UringEngine final : public Engine {
 public:
  UringEngine(std::uint32_t queue_depth, Syscalls& syscalls, std::unique_ptr<Engine> buffered)
      : depth_(queue_depth), syscalls_(syscalls), buffered_(std::move(buffered)) {}

  ~UringEngine() override {
    buffered_.reset();
    if (thread_.joinable()) {
      {
        const std::lock_guard lock(mutex_);
        is_stopping_ = true;
      }
      wake();
      thread_.join();
    }
    if (wake_fd_ >= 0) {
      ::close(wake_fd_);
    }
  }

  /// Starts the ring's thread; returns 0 or -errno.
  int start() {
    wake_fd_ = ::eventfd(0, EFD_CLOEXEC);
    if (wake_fd_ < 0) {
      return -errno;
    }
    std::promise<int> opened;
    std::future<int> result = opened.get_future();
    try {
      thread_ = start_thread("cairn-ring", [this, &opened] { run(opened); });
    } catch (const Error& error) {
      return -error.code().value();
    }
    return result.get();
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "io_uring"; }

  [[nodiscard]] Syscalls& syscalls() noexcept override { return syscalls_; }

  void submit(Request& request) noexcept override {
    if (!request.is_direct && request.operation != Operation::sync_data) {
      buffered_->submit(request);
      return;
    }
    if (std::this_thread::get_id() == thread_.get_id()) {
      backlog_.push(request);  // From a `done`: the loop looks at the backlog next.
      return;
    }
    bool was_empty = false;
    {
      const std::lock_guard lock(mutex_);
      was_empty = inbox_.is_empty();
      inbox_.push(request);
    }
    if (was_empty) {  // Otherwise a wake-up for what lies in the inbox is on its way.
      wake();
    }
  }

 private:
  void wake() const noexcept {
    const std::uint64_t one = 1;
    while (::write(wake_fd_, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
  }

  // SINGLE_ISSUER binds the ring to the thread that makes it, so it is made here.
  void run(std::promise<int>& opened) noexcept {
    int result = open_ring(depth_ + 1, ring_);
    if (result >= 0 && !can_read_and_write(ring_)) {
      io_uring_queue_exit(&ring_);
      result = -ENOSYS;
    }
    opened.set_value(result);  // `opened` is gone after this.
    if (result < 0) {
      return;
    }
    arm_wake();
    while (take_inbox() || in_flight_ > 0 || !backlog_.is_empty()) {
      fill_ring();
      wait();
      reap();
    }
    io_uring_queue_exit(&ring_);
  }

  /// Returns false when the engine is being destroyed.
  bool take_inbox() noexcept {
    const std::lock_guard lock(mutex_);
    backlog_.take(inbox_);
    return !is_stopping_;
  }

  void arm_wake() noexcept {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);  // There is room: the ring has an entry more than depth_.
    io_uring_prep_read(sqe, wake_fd_, &wake_count_, sizeof(wake_count_), 0);
    io_uring_sqe_set_data(sqe, nullptr);
  }

  void fill_ring() noexcept {
    while (!backlog_.is_empty() && in_flight_ < depth_) {
      io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
      if (sqe == nullptr) {
        return;
      }
      prepare(*sqe, backlog_.pop());
      ++in_flight_;
    }
  }

  static void prepare(io_uring_sqe& sqe, Request& request) noexcept {
    // A longer request ends short at the kernel's limit, as a long pwrite does.
    constexpr std::size_t kMostBytes = 0x7ffff000;
    const auto size = static_cast<unsigned>(request.size < kMostBytes ? request.size : kMostBytes);
    switch (request.operation) {
      case Operation::read:
        io_uring_prep_read(&sqe, request.fd, request.data, size, request.offset);
        break;
      case Operation::write:
        io_uring_prep_write(&sqe, request.fd, request.data, size, request.offset);
        break;
      case Operation::sync_data:
        io_uring_prep_fsync(&sqe, request.fd, IORING_FSYNC_DATASYNC);
        break;
    }
    io_uring_sqe_set_data(&sqe, &request);
  }

  void wait() noexcept {
    const int result = io_uring_submit_and_wait(&ring_, 1);
    // EINTR: a signal. EBUSY: reap first. Anything else is a shortage (EAGAIN, ENOMEM) that reaping may end;
    // what was not submitted stays in the ring and is offered again.
    if (result < 0 && result != -EINTR && result != -EBUSY) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void reap() noexcept {
    io_uring_cqe* cqe = nullptr;
    while (io_uring_peek_cqe(&ring_, &cqe) == 0 && cqe != nullptr) {
      auto* request = static_cast<Request*>(io_uring_cqe_get_data(cqe));
      const std::int64_t result = cqe->res;
      io_uring_cqe_seen(&ring_, cqe);  // `cqe` is the kernel's again.
      if (request == nullptr) {
        is_wake_due_ = true;
        continue;
      }
      --in_flight_;
      request->done(*request, result);  // `request` may be gone after this.
    }
    if (std::exchange(is_wake_due_, false)) {
      arm_wake();
    }
  }

  const std::uint32_t depth_;
  Syscalls& syscalls_;
  std::unique_ptr<Engine> buffered_;
  int wake_fd_ = -1;

  std::mutex mutex_;  // Guards inbox_ and is_stopping_.
  RequestQueue inbox_;
  bool is_stopping_ = false;

  // The ring thread's own.
  io_uring ring_{};
  std::uint64_t wake_count_ = 0;
  bool is_wake_due_ = false;
  RequestQueue backlog_;
  std::uint32_t in_flight_ = 0;

  std::thread thread_;
};

}  // namespace

std::unique_ptr<Engine> make_uring_engine(std::uint32_t queue_depth, Syscalls& syscalls,
                                          std::unique_ptr<Engine> buffered, int& error) {
  auto engine = std::make_unique<UringEngine>(queue_depth, syscalls, std::move(buffered));
  const int result = engine->start();
  if (result < 0) {
    error = -result;
    return nullptr;
  }
  return engine;
}

}  // namespace cairn::io
