// SPDX-License-Identifier: Apache-2.0
#include "io/uring_engine.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <liburing.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/mutex.hpp"
#include "base/internal/probe.hpp"
#include "base/internal/thread.hpp"
#include "io/internal/engine_share.hpp"
#include "io/internal/request_queue.hpp"
#include "io/uring_ring.hpp"

namespace cairn::io {
namespace {

constexpr std::chrono::milliseconds kLookAgain{1};

/// One ring and the one thread that touches it. Other threads leave requests in the inbox and wake it through
/// an eventfd, on which a read is always pending in the ring; so the thread sleeps in the kernel when idle.
/// When the ring is refused while in use, threads take over what the kernel does not hold yet, and all that follows.
class UringEngine final : public Engine {
 public:
  UringEngine(std::uint32_t queue_depth, Syscalls& syscalls, std::unique_ptr<Engine> threads)
      : depth_(queue_depth), syscalls_(syscalls), threads_(std::move(threads)) {
    offered_.reserve(depth_ + 1);
  }

  ~UringEngine() override {
    if (thread_.joinable()) {
      {
        const MutexLock lock(mutex_);
        is_stopping_ = true;
      }
      wake();
      thread_.join();
    }
    threads_.reset();  // Last: it takes over from a ring that is closed.
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

  [[nodiscard]] std::string_view name() const noexcept override {
    return refusal_ == 0 ? "io_uring" : threads_->name();
  }

  [[nodiscard]] std::string trouble() const override {
    const int error = refusal_;
    return error == 0 ? std::string()
                      : fmt::format("io_uring was refused while in use ({}); threads read and write",
                                    why_no_ring(error));
  }

  [[nodiscard]] Syscalls& syscalls() noexcept override { return syscalls_; }

  /// Of an engine that has not started.
  [[nodiscard]] std::unique_ptr<Engine> take_threads() noexcept { return std::move(threads_); }

  void submit(Request& request) noexcept override {
    if (!request.is_direct && request.operation != Operation::sync_data) {
      threads_->submit(request);
      return;
    }
    bool is_taken = false;
    bool was_empty = false;
    {
      const MutexLock lock(mutex_);
      is_taken = !is_closed_;
      if (is_taken) {
        was_empty = inbox_.is_empty();
        inbox_.push(request);
      }
    }
    if (!is_taken) {
      CAIRN_PROBE("io.ring_is_closed");
      threads_->submit(request);
    } else if (was_empty && std::this_thread::get_id() != thread_.get_id()) {
      wake();  // Otherwise a wake-up for what lies in the inbox is on its way, or the loop looks at it next.
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
    const int result = open_ring(depth_, ring_);
    opened.set_value(result);  // `opened` is gone after this.
    if (result < 0) {
      return;
    }
    arm_wake();
    while (take_inbox()) {
      fill_ring();
      wait();
      reap();
    }
    CAIRN_ASSERT(in_flight_ == 0 || refusal_ != 0, "a ring that was not refused ends with nothing in flight");
    while (in_flight_ > 0) {  // The ring was refused; what the kernel holds ends all the same.
      std::this_thread::sleep_for(kLookAgain);
      reap();
    }
    CAIRN_ASSERT(in_flight_ == 0, "the kernel holds nothing of a ring that is closed");
    close_ring(ring_);
  }

  /// Returns false when the ring is closed: it was refused, or the engine is being destroyed and nothing is left.
  bool take_inbox() noexcept {
    const MutexLock lock(mutex_);
    backlog_.take(inbox_);
    is_closed_ = is_closed_ || (is_stopping_ && in_flight_ == 0 && backlog_.is_empty());
    return !is_closed_;
  }

  /// Leaves all to the threads that the kernel does not hold.
  void refuse(int error) noexcept {
    CAIRN_ASSERT(error > 0, "a ring is refused for a reason");
    CAIRN_PROBE("io.ring_refused");
    refusal_ = error;
    for (Request* request : offered_) {
      if (request != nullptr) {
        take_out(*request);
        backlog_.push(*request);
      }
    }
    offered_.clear();
    {
      const MutexLock lock(mutex_);
      is_closed_ = true;
      backlog_.take(inbox_);
    }
    empty_backlog();
  }

  void empty_backlog() noexcept {
    while (!backlog_.is_empty()) {
      leave_to_threads(backlog_.pop());
    }
  }

  /// Takes a request that the kernel had no thread for: nobody else cancels any.
  void drop(Request& request) noexcept {
    if (request.operation == Operation::sync_data) {
      CAIRN_PROBE("io.sync_cancelled_by_kernel");
      request.done(request,
                   -ECANCELED);  // It may be the file system's answer: no sync follows one that has failed.
    } else {
      threads_->submit(request);
    }
  }

  void arm_wake() noexcept {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);  // There is room: the ring has an entry more than depth_.
    CAIRN_ASSERT(sqe != nullptr, "the ring has an entry for the wake-up");
    io_uring_prep_read(sqe, wake_fd_, &wake_count_, sizeof(wake_count_), 0);
    io_uring_sqe_set_data(sqe, nullptr);
    offered_.push_back(nullptr);
  }

  void fill_ring() noexcept {
    while (!backlog_.is_empty()) {
      CAIRN_ASSERT(in_flight_ <= depth_, "the ring holds no more requests than it was made for");
      if (in_flight_ == depth_) {
        pass_on(backlog_.pop());
        continue;
      }
      io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
      if (sqe == nullptr) {
        CAIRN_PROBE("io.ring_has_no_entry");
        return;
      }
      Request& request = backlog_.pop();
      prepare(*sqe, request);
      offered_.push_back(&request);
      ++in_flight_;
      ++part_of(request).at_work;
    }
  }

  [[nodiscard]] EngineShare::Part& part_of(const Request& request) noexcept {
    return (request.share != nullptr ? *request.share : of_nobody_).ring;
  }

  /// The ring is full. A request waits for those of its own share, but not for others', which may never come back.
  void pass_on(Request& request) noexcept {
    EngineShare::Part& part = part_of(request);
    CAIRN_ASSERT(part.at_work <= in_flight_, "what a share has in the ring is in flight");
    if (part.at_work == in_flight_) {
      part.waiting.push(request);
    } else {
      leave_to_threads(request);
    }
  }

  /// With those that wait for room: perhaps nothing of their share is in the ring any more, whose end would tell of
  /// them.
  void leave_to_threads(Request& request) noexcept {
    RequestQueue waiting;
    waiting.take(part_of(request).waiting);
    threads_->submit(request);  // It and its share may be gone after this.
    while (!waiting.is_empty()) {
      threads_->submit(waiting.pop());
    }
  }

  /// A request has left the ring, and makes room for one that waits for it.
  void take_out(const Request& request) noexcept {
    CAIRN_ASSERT(in_flight_ > 0, "a request that leaves the ring was in flight");
    --in_flight_;
    EngineShare::Part& part = part_of(request);
    CAIRN_ASSERT(part.at_work > 0, "a request that leaves the ring was counted with its share");
    --part.at_work;
    if (!part.waiting.is_empty()) {
      backlog_.push(part.waiting.pop());
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
    if (result >= 0) {
      CAIRN_ASSERT(static_cast<std::size_t>(result) <= offered_.size(),
                   "the kernel takes no more requests than it was offered");
      offered_.erase(offered_.begin(), offered_.begin() + result);
    } else if (is_refusal(-result)) {
      refuse(-result);
    } else if (result != -EINTR && result != -EBUSY) {
      // EINTR: a signal. EBUSY: reap first. Else a shortage (EAGAIN, ENOMEM) that reaping may end; what was not
      // submitted stays in the ring and is offered again.
      std::this_thread::sleep_for(kLookAgain);
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
      take_out(*request);
      if (result == -ECANCELED) {
        CAIRN_PROBE("io.request_cancelled_by_kernel");
        refuse(ECANCELED);
        drop(*request);
      } else {
        request->done(*request, result);  // `request` may be gone after this.
      }
    }
    if (refusal_ != 0) {
      empty_backlog();  // With what waited for what the kernel held.
    }
    if (std::exchange(is_wake_due_, false) && refusal_ == 0) {
      arm_wake();
    }
  }

  const std::uint32_t depth_;
  Syscalls& syscalls_;
  std::unique_ptr<Engine> threads_;  ///< For what goes through the page cache.
  int wake_fd_ = -1;
  std::atomic<int> refusal_{0};  ///< The errno with which the kernel refused the ring.

  Mutex mutex_;
  RequestQueue inbox_ CAIRN_GUARDED_BY(mutex_);
  bool is_stopping_ CAIRN_GUARDED_BY(mutex_) = false;
  bool is_closed_ CAIRN_GUARDED_BY(mutex_) = false;  ///< The threads have all that comes now.

  // The ring thread's own.
  io_uring ring_{};
  std::uint64_t wake_count_ = 0;
  bool is_wake_due_ = false;
  RequestQueue backlog_;
  std::vector<Request*>
      offered_;  ///< In the ring, and not yet taken by the kernel, oldest first; null: the wake-up.
  std::uint32_t in_flight_ = 0;  ///< Those, and those that the kernel holds.
  EngineShare of_nobody_;

  std::thread thread_;
};

}  // namespace

std::unique_ptr<Engine> make_uring_engine(std::uint32_t queue_depth, Syscalls& syscalls,
                                          std::unique_ptr<Engine>& threads, int& error) {
  auto engine = std::make_unique<UringEngine>(queue_depth, syscalls, std::move(threads));
  const int result = engine->start();
  if (result < 0) {
    error = -result;
    threads = engine->take_threads();
    return nullptr;
  }
  return engine;
}

}  // namespace cairn::io
