// SPDX-License-Identifier: Apache-2.0
#include "cairn/mpi/transport.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <queue>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/mutex.hpp"
#include "base/internal/thread.hpp"
#include "mpi/mpi_error.hpp"
#include "mpi/postbox.hpp"

namespace cairn {
namespace {

using mpi::check;

constexpr std::chrono::microseconds kShortestPause{50};
constexpr std::chrono::microseconds kLongestPause{2000};
constexpr std::chrono::milliseconds kLongestFlush{500};

/// What MPI_Init_thread has given.
int level_of_threads() {
  int is_initialised = 0;
  int is_finalised = 0;
  MPI_Initialized(&is_initialised);
  MPI_Finalized(&is_finalised);
  if (is_initialised == 0 || is_finalised != 0) {
    throw Error(Errc::invalid_argument,
                is_finalised != 0
                    ? "MPI_Finalize was called already"
                    : "MPI is not initialised: call MPI_Init_thread with MPI_THREAD_MULTIPLE first");
  }
  int level = MPI_THREAD_SINGLE;
  check(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level == MPI_THREAD_SINGLE) {
    throw Error(
        Errc::invalid_argument,
        "MPI was initialised for programs without threads: call MPI_Init_thread with MPI_THREAD_MULTIPLE, or "
        "at least MPI_THREAD_FUNNELED, instead of MPI_Init");
  }
  return level;
}

MPI_Comm duplicate_of(MPI_Comm communicator) {
  MPI_Comm duplicate = MPI_COMM_NULL;
  check(MPI_Comm_dup(communicator, &duplicate), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(duplicate, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return duplicate;
}

std::size_t number_of(int (*ask)(MPI_Comm, int*), MPI_Comm communicator) {
  int number = 0;
  check(ask(communicator, &number), "MPI_Comm_rank or MPI_Comm_size");
  return static_cast<std::size_t>(number);
}

/// Of each rank the least one of its machine.
std::vector<std::uint32_t> hosts_of(MPI_Comm communicator, std::size_t rank, std::size_t size) {
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
        "MPI_Comm_split_type");
  auto least = static_cast<std::uint32_t>(rank);
  check(MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_UINT32_T, MPI_MIN, host), "MPI_Allreduce");
  check(MPI_Comm_free(&host), "MPI_Comm_free");
  std::vector<std::uint32_t> hosts(size);
  check(MPI_Allgather(&least, 1, MPI_UINT32_T, hosts.data(), 1, MPI_UINT32_T, communicator), "MPI_Allgather");
  return hosts;
}

Hash128 job_of(MPI_Comm communicator) {
  std::random_device random;
  std::uint64_t bits[2] = {};
  for (std::uint64_t& half : bits) {
    half = std::uint64_t{random()} << 32 | random();
  }
  check(MPI_Bcast(bits, 2, MPI_UINT64_T, 0, communicator), "MPI_Bcast");
  return {bits[0], bits[1]};
}

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(MPI_Comm communicator)
      : level_(level_of_threads()),
        main_thread_(std::this_thread::get_id()),
        communicator_(duplicate_of(communicator)),
        rank_(number_of(MPI_Comm_rank, communicator_)),
        size_(number_of(MPI_Comm_size, communicator_)),
        hosts_(hosts_of(communicator_, rank_, size_)),
        job_(job_of(communicator_)),
        postbox_(std::make_unique<mpi::Postbox>(communicator_)) {
    hear_of_finalize();
    if (level_ == MPI_THREAD_MULTIPLE) {
      thread_ = start_thread("cairn-mpi", [this] { serve(); });
    }
  }
  ~MpiTransport() override {
    close();
    int is_finalised = 0;
    MPI_Finalized(&is_finalised);
    if (is_finalised == 0) {
      MPI_Comm_delete_attr(MPI_COMM_SELF, key_);
      MPI_Comm_free_keyval(&key_);
    }
  }

  std::size_t rank() const noexcept override { return rank_; }
  std::size_t size() const noexcept override { return size_; }
  std::span<const std::uint32_t> hosts() const noexcept override { return hosts_; }
  Hash128 job() const noexcept override { return job_; }
  Time now() const override { return std::chrono::steady_clock::now(); }

  void send(std::size_t to, Packet packet) override {
    const MutexLock lock(mutex_);
    outgoing_.emplace_back(to, std::move(packet));
    changed_.notify_all();
  }

  void listen(Receiver receiver, std::function<void()> ended) override {
    const MutexLock lock(mutex_);
    receiver_ = std::move(receiver);
    ended_ = std::move(ended);
    changed_.notify_all();
  }

  void call_after(std::chrono::nanoseconds delay, std::function<void()> work) override {
    const MutexLock lock(mutex_);
    later_.push({now() + delay, std::move(work)});
    changed_.notify_all();
  }

  bool progress() override {
    const bool may_use_this = level_ == MPI_THREAD_SERIALIZED ||
                              (level_ == MPI_THREAD_FUNNELED && std::this_thread::get_id() == main_thread_);
    if (may_use_this && !is_turning_.exchange(true)) {
      const std::shared_ptr<void> turning(nullptr, [this](std::nullptr_t) { is_turning_ = false; });
      turn();
    }
    return may_use_this;
  }

 private:
  struct Later {
    Time time;
    std::function<void()> work;
    bool operator<(const Later& other) const { return other.time < time; }
  };

  /// MPI_Finalize deletes the attributes of MPI_COMM_SELF before all else.
  void hear_of_finalize() {
    const auto finalize = [](MPI_Comm, int, void* transport, void*) {
      static_cast<MpiTransport*>(transport)->end();
      static_cast<MpiTransport*>(transport)->close();
      return MPI_SUCCESS;
    };
    check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalize, &key_, nullptr), "MPI_Comm_create_keyval");
    check(MPI_Comm_set_attr(MPI_COMM_SELF, key_, this), "MPI_Comm_set_attr");
  }

  /// By MPI_Finalize, or because MPI has broken down: to those who listen, it is gone.
  void end() {
    std::function<void()> ended;
    {
      const MutexLock lock(mutex_);
      ended = std::exchange(ended_, nullptr);
    }
    if (ended) {
      ended();  // It says so to the other ranks.
    }
  }

  void close() noexcept {
    {
      const MutexLock lock(mutex_);
      is_closed_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) {
      thread_.join();
    }
    if (postbox_) {
      flush();
      postbox_.reset();
    }
  }

  /// Sends what is left to send; a rank that does not receive it keeps nobody for longer than a moment.
  void flush() noexcept {
    const Time end = now() + kLongestFlush;
    try {
      for (const auto& [to, packet] : take_outgoing()) {
        postbox_->send(to, packet);
      }
      while (postbox_->is_sending() && now() < end) {
        if (!postbox_->turn()) {
          std::this_thread::sleep_for(kShortestPause);
        }
      }
    } catch (const Error&) {  // Those who wait for it find that this rank is silent.
    }
  }

  std::deque<std::pair<std::size_t, Packet>> take_outgoing() {
    const MutexLock lock(mutex_);
    return std::exchange(outgoing_, {});
  }

  void serve() {
    std::chrono::microseconds pause = kShortestPause;
    MutexLock lock(mutex_);
    while (!is_closed_) {
      if (!is_busy()) {
        changed_.wait(lock, [this]() CAIRN_REQUIRES(mutex_) { return is_closed_ || is_busy(); });
        continue;
      }
      lock.unlock();
      const bool has_any = turn();
      lock.lock();
      pause = has_any ? kShortestPause : std::min(pause * 2, kLongestPause);
      changed_.wait_for(lock, pause,
                        [this]() CAIRN_REQUIRES(mutex_) { return is_closed_ || !outgoing_.empty(); });
    }
  }

  /// While nothing is under way here nobody looks for packets: they wait in MPI.
  bool is_busy() const CAIRN_REQUIRES(mutex_) {
    return receiver_ &&
           (!outgoing_.empty() || !later_.empty() || postbox_->is_sending() || postbox_->is_receiving());
  }

  /// Sends, receives, and calls what is due. Returns whether there was any of it.
  bool turn() {
    std::deque<std::pair<std::size_t, Packet>> outgoing;
    const Receiver* receiver = nullptr;
    {
      const MutexLock lock(mutex_);
      if (is_closed_) {
        return false;
      }
      receiver = receiver_ ? &receiver_ : nullptr;  // Set once.
      outgoing = std::exchange(outgoing_, {});
    }
    bool has_any = !outgoing.empty();
    try {
      for (const auto& [to, packet] : outgoing) {
        postbox_->send(to, packet);
      }
      has_any |= postbox_->turn();
    } catch (const std::exception&) {  // MPI has broken down, or there is no memory for what has come.
      end();
      return false;
    }
    while (receiver != nullptr) {  // Until somebody listens, what has come waits.
      const auto [from, packet] = postbox_->take();
      if (!packet) {
        break;
      }
      (*receiver)(from, packet);
    }
    while (const std::function<void()> work = next_due()) {
      work();
      has_any = true;
    }
    return has_any;
  }

  std::function<void()> next_due() {
    const MutexLock lock(mutex_);
    if (later_.empty() || later_.top().time > now()) {
      return nullptr;
    }
    std::function<void()> work = later_.top().work;
    later_.pop();
    return work;
  }

  const int level_;                    // Of threads, as MPI names them.
  const std::thread::id main_thread_;  // Of MPI, which this was made on, where only that may call it.
  const MPI_Comm communicator_;
  const std::size_t rank_;
  const std::size_t size_;
  const std::vector<std::uint32_t> hosts_;
  const Hash128 job_;
  int key_ = MPI_KEYVAL_INVALID;
  std::unique_ptr<mpi::Postbox> postbox_;  // Of the thread that makes progress.
  std::atomic<bool> is_turning_{false};    // Of several threads that are lent, one makes progress.
  Mutex mutex_;
  Condition changed_;
  bool is_closed_ CAIRN_GUARDED_BY(mutex_) = false;
  Receiver receiver_ CAIRN_GUARDED_BY(mutex_);
  std::function<void()> ended_ CAIRN_GUARDED_BY(mutex_);
  std::deque<std::pair<std::size_t, Packet>> outgoing_ CAIRN_GUARDED_BY(mutex_);
  std::priority_queue<Later> later_ CAIRN_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Transport> mpi_transport(MPI_Comm communicator) {
  return std::make_unique<MpiTransport>(communicator);
}

}  // namespace cairn
