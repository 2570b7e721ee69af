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
#include "mpi/event_counts.hpp"
#include "mpi/mpi_error.hpp"
#include "mpi/postbox.hpp"

namespace cairn {
namespace {

using mpi::check;

constexpr std::chrono::microseconds kShortestPause{50};
constexpr std::chrono::microseconds kLongestPause{2000};
constexpr std::chrono::milliseconds kLongestFlush{500};
/// How long a thread that is woken looks for packets: they may come a little later than what wakes it.
constexpr std::chrono::milliseconds kAwake{20};

/// Returns what MPI_Init_thread has given.
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

/// The ranks of this one's machine.
MPI_Comm machine_of(MPI_Comm communicator) {
  MPI_Comm machine = MPI_COMM_NULL;
  check(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine),
        "MPI_Comm_split_type");
  return machine;
}

/// Returns for each rank the lowest rank of its machine.
std::vector<std::uint32_t> hosts_of(MPI_Comm communicator, MPI_Comm machine, std::size_t rank,
                                    std::size_t size) {
  auto least = static_cast<std::uint32_t>(rank);
  check(MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_UINT32_T, MPI_MIN, machine), "MPI_Allreduce");
  std::vector<std::uint32_t> hosts(size);
  check(MPI_Allgather(&least, 1, MPI_UINT32_T, hosts.data(), 1, MPI_UINT32_T, communicator), "MPI_Allgather");
  return hosts;
}

bool are_alike(const std::vector<std::uint32_t>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(), [&](std::uint32_t host) { return host == hosts.front(); });
}

/// Returns for each rank whether its transport has a thread.
std::vector<std::uint8_t> threads_of(MPI_Comm communicator, int level, std::size_t size) {
  const std::uint8_t has_thread = level == MPI_THREAD_MULTIPLE ? 1 : 0;
  std::vector<std::uint8_t> threads(size);
  check(MPI_Allgather(&has_thread, 1, MPI_UINT8_T, threads.data(), 1, MPI_UINT8_T, communicator),
        "MPI_Allgather");
  return threads;
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

class MpiTransport final : public coord::Transport {
 public:
  explicit MpiTransport(MPI_Comm communicator)
      : level_(level_of_threads()),
        main_thread_(std::this_thread::get_id()),
        communicator_(duplicate_of(communicator)),
        rank_(number_of(MPI_Comm_rank, communicator_)),
        size_(number_of(MPI_Comm_size, communicator_)),
        machine_(machine_of(communicator_)),
        hosts_(hosts_of(communicator_, machine_, rank_, size_)),
        threads_(threads_of(communicator_, level_, size_)),
        job_(job_of(communicator_)),
        events_(machine_, fmt::format("cairn-{}-{}", to_hex(job_), hosts_[rank_]), size_),
        is_woken_by_all_(events_.is_shared() && are_alike(hosts_)),
        postbox_(std::make_unique<mpi::Postbox>(communicator_)) {
    check(MPI_Comm_free(&machine_), "MPI_Comm_free");
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

  bool has_thread(std::size_t rank) const override { return threads_[rank] != 0; }

  void send(std::size_t to, coord::Packet packet) override {
    const MutexLock lock(mutex_);
    outgoing_.emplace_back(to, std::move(packet));
    events_.add(rank_);
  }

  void look_within(std::chrono::nanoseconds latest) override {
    const MutexLock lock(mutex_);
    if (!is_woken_by_all_) {
      longest_sleep_ = latest;
    }
  }

  void listen(Receiver receiver, std::function<void()> ended) override {
    const MutexLock lock(mutex_);
    receiver_ = std::move(receiver);
    ended_ = std::move(ended);
    events_.add(rank_);
  }

  void call_after(std::chrono::nanoseconds delay, std::function<void()> work) override {
    const MutexLock lock(mutex_);
    later_.push({now() + delay, std::move(work)});
    events_.add(rank_);
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
      events_.add(rank_);
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
        post(to, packet);
      }
      while (postbox_->is_sending() && now() < end) {
        if (!postbox_->turn()) {
          std::this_thread::sleep_for(kShortestPause);
        }
      }
    } catch (const Error&) {  // Those who wait for it find that this rank is silent.
    }
  }

  std::deque<std::pair<std::size_t, coord::Packet>> take_outgoing() {
    const MutexLock lock(mutex_);
    return std::exchange(outgoing_, {});
  }

  void serve() {
    std::chrono::nanoseconds pause = kShortestPause;
    std::uint32_t seen = 0;
    bool has_slept = true;
    Time awake_until;
    while (true) {
      // Before all that this thread looks at: what changes after this ends the wait below.
      const std::uint32_t events = events_.of(rank_);
      if (has_slept || events != seen) {
        awake_until = now() + kAwake;
        pause = kShortestPause;
      }
      seen = events;
      if (turn()) {
        pause = pause_after_turn();
      }
      std::chrono::nanoseconds longest;
      {
        const MutexLock lock(mutex_);
        if (is_closed_) {
          return;
        }
        has_slept = !is_busy() && now() >= awake_until;
        longest = has_slept ? longest_sleep_ : pause;
      }
      events_.wait(rank_, seen, longest);
      pause = std::min<std::chrono::nanoseconds>(pause * 2, kLongestPause);
    }
  }

  /// How long the thread waits that has found something. Whoever sends the next packet wakes it, where they can; nobody
  /// tells it what becomes of what MPI has begun.
  [[nodiscard]] std::chrono::nanoseconds pause_after_turn() const {
    const bool is_told = is_woken_by_all_ && !postbox_->is_sending() && !postbox_->is_receiving();
    return is_told ? kLongestPause : kShortestPause;
  }

  /// While nothing is under way here the thread sleeps. Ranks of its machine wake it when they send something; what
  /// others send waits in MPI until it looks again.
  bool is_busy() const CAIRN_REQUIRES(mutex_) {
    return receiver_ &&
           (!outgoing_.empty() || !later_.empty() || postbox_->is_sending() || postbox_->is_receiving());
  }

  /// Sends a packet, and wakes its receiver.
  void post(std::size_t to, const coord::Packet& packet) {
    postbox_->send(to, packet);
    if (to != rank_ && has_thread(to) && hosts_[to] == hosts_[rank_]) {
      events_.add(to);
    }
  }

  /// Sends, receives, and calls what is due. Returns whether there was any of it.
  bool turn() {
    std::deque<std::pair<std::size_t, coord::Packet>> outgoing;
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
        post(to, packet);
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
  MPI_Comm machine_;  // Until all that needs it is made.
  const std::vector<std::uint32_t> hosts_;
  const std::vector<std::uint8_t> threads_;
  const Hash128 job_;
  mpi::EventCounts events_;
  const bool
      is_woken_by_all_;  // No rank is on another machine, from where nobody can wake this one's thread.
  int key_ = MPI_KEYVAL_INVALID;
  std::unique_ptr<mpi::Postbox> postbox_;  // Of the thread that makes progress.
  std::atomic<bool> is_turning_{false};    // Of several threads that are lent, one makes progress.
  Mutex mutex_;
  bool is_closed_ CAIRN_GUARDED_BY(mutex_) = false;
  Receiver receiver_ CAIRN_GUARDED_BY(mutex_);
  std::function<void()> ended_ CAIRN_GUARDED_BY(mutex_);
  std::chrono::nanoseconds longest_sleep_ CAIRN_GUARDED_BY(mutex_) = std::chrono::nanoseconds::max();
  std::deque<std::pair<std::size_t, coord::Packet>> outgoing_ CAIRN_GUARDED_BY(mutex_);
  std::priority_queue<Later> later_ CAIRN_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace

std::unique_ptr<coord::Transport> mpi_transport(MPI_Comm communicator) {
  return std::make_unique<MpiTransport>(communicator);
}

}  // namespace cairn
