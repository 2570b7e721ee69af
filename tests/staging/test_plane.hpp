// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/internal/clock.hpp"
#include "io/internal/engine.hpp"
#include "staging/internal/data_plane.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/sync_wait.hpp"

namespace cairn::staging {

/// A disk that takes direct transfers, or refuses to open files for them; the page cache serves them, so that this
/// works on every file system.
class TestDisk final : public testing::ForwardingSyscalls {
 public:
  int open_beneath(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    if ((flags & O_DIRECT) != 0 && direct_open_error != 0) {
      return -direct_open_error;
    }
    return ForwardingSyscalls::open_beneath(directory, path, flags & ~O_DIRECT, mode);
  }

  int open_at(int directory, const char* path, int flags, std::uint32_t mode) noexcept override {
    return open_error != 0 ? -open_error : ForwardingSyscalls::open_at(directory, path, flags, mode);
  }

  int allocate(int fd, std::uint64_t size_bytes) noexcept override {
    return allocate_error != 0 ? -allocate_error : ForwardingSyscalls::allocate(fd, size_bytes);
  }

  int status(int fd, io::FileStatus& status) noexcept override {
    const int result = ForwardingSyscalls::status(fd, status);
    status.is_direct_alignment_known = true;
    status.direct_alignment_bytes = 512;
    return result;
  }

  int direct_open_error = 0;
  int open_error = 0;      ///< Of what is opened by its path.
  int allocate_error = 0;  ///< Of what is to be reserved.
};

/// An engine that transfers at once, on the thread that asks; unless the test has it fail, or holds it.
class TestEngine final : public io::Engine {
 public:
  explicit TestEngine(io::Syscalls& syscalls) : syscalls_(syscalls) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "test"; }
  [[nodiscard]] io::Syscalls& syscalls() noexcept override { return syscalls_; }

  void submit(io::Request& request) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      if (is_held_) {
        held_.push_back(&request);
        return;
      }
    }
    answer(request);
  }

  /// Keeps requests back until `release`.
  void hold() {
    const std::lock_guard lock(mutex_);
    is_held_ = true;
  }
  void release() {
    std::vector<io::Request*> held;
    {
      const std::lock_guard lock(mutex_);
      is_held_ = false;
      held.swap(held_);
    }
    for (io::Request* request : held) {
      answer(*request);
    }
  }
  [[nodiscard]] std::size_t held() {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }

  /// Asked before each transfer: the errno that it fails with, or 0.
  std::function<int(const io::Request&)> error_of;
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> direct_requests{0};

 private:
  void answer(io::Request& request) noexcept {
    ++requests;
    direct_requests += request.is_direct ? 1 : 0;
    const int error = error_of ? error_of(request) : 0;
    request.done(request, error != 0 ? -error : transfer(request));
  }

  [[nodiscard]] std::int64_t transfer(const io::Request& request) const noexcept {
    switch (request.operation) {
      case io::Operation::read:
        return syscalls_.read_at(request.fd, request.data, request.size, request.offset);
      case io::Operation::write:
        return syscalls_.write_at(request.fd, request.data, request.size, request.offset);
      case io::Operation::sync_data:
        break;
    }
    return syscalls_.sync_data(request.fd);
  }

  io::Syscalls& syscalls_;
  std::mutex mutex_;
  bool is_held_ = false;
  std::vector<io::Request*> held_;
};

/// A data plane of a test's own, with a strand to use it on.
struct TestPlane {
  /// 0 buffers, 0 descriptors: as many as are wanted.
  explicit TestPlane(std::size_t buffers = 0, std::size_t descriptors = 0)
      : plane(new DataPlane{.engine = engine,
                            .meter = meter,
                            .workers = async::LimitedPool(pool, 4),
                            .calls = async::LimitedPool(pool, 2),
                            .background = async::LimitedPool(pool, 2),
                            .users = async::LimitedPool(pool, 2),
                            .users_background = async::LimitedPool(pool, 2),
                            .buffers = BufferPool(buffers * kBufferBytes),
                            .scratch = async::Semaphore(0),
                            .transfers = async::Semaphore(4),
                            .gathers = async::Semaphore(4),
                            .files = FileBudget(descriptors),
                            .strand = strand,
                            .helpers = std::make_shared<async::TaskGroup>(strand)}) {}

  /// Runs a task on the strand, to its end.
  template <class T>
  T run(Awaitable<T> task) const {
    return testing::sync_wait(strand, std::move(task));
  }

  /// Returns whether nothing is taken of what has an end.
  [[nodiscard]] bool is_unused() const {
    return plane->files.taken() == 0 && plane->buffers.leased_bytes() == 0 && plane->transfers.taken() == 0 &&
           plane->gathers.taken() == 0 && plane->scratch.taken() == 0;
  }

  TestDisk disk;
  TestEngine engine{disk};
  observe::Meter meter{system_clock(), system_clock().steady_now(), "test", TraceSink()};
  async::ThreadPool pool{4, "test"};
  Executor strand = async::make_strand(pool.executor());
  std::shared_ptr<DataPlane> plane;
};

}  // namespace cairn::staging
