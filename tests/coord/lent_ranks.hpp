// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <ostream>
#include <queue>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "cairn/coord/transport.hpp"

#include "base/internal/thread.hpp"

namespace cairn::testing {

/// Which threads a transport may be lent, as MPI has it.
enum class LentThreads : std::uint8_t {
  funneled,    ///< The one that has made it.
  serialized,  ///< Any, but one at a time.
};

inline void PrintTo(LentThreads threads, std::ostream* out) {
  *out << (threads == LentThreads::funneled ? "funneled" : "serialized");
}

/// A job in one process whose transports have no threads: packets move while somebody lends them one.
///
/// Threads: every method may be called from any thread.
class LentRanks {
 public:
  LentRanks(std::size_t ranks, LentThreads threads) : threads_(threads), hosts_(ranks, 0), boxes_(ranks) {
    for (auto& box : boxes_) {
      box = std::make_shared<Mailbox>();
    }
  }

  /// Of one rank, made on the thread that is lent to it.
  [[nodiscard]] std::unique_ptr<coord::Transport> transport(std::size_t rank) {
    return std::make_unique<Wire>(*this, rank);
  }

  /// How often a thread has made progress that may not, or beside another.
  [[nodiscard]] std::size_t violations() const { return violations_; }

 private:
  using Time = coord::Transport::Time;

  struct Later {
    Time time;
    std::function<void()> work;
    bool operator<(const Later& other) const { return other.time < time; }
  };

  struct Mailbox {
    std::mutex mutex;  // Protects what follows.
    std::deque<std::pair<std::size_t, coord::Packet>> packets;
  };

  class Wire final : public coord::Transport {
   public:
    Wire(LentRanks& job, std::size_t rank)
        : job_(job), boxes_(job.boxes_), rank_(rank), owner_(std::this_thread::get_id()) {}
    ~Wire() override { send_all(); }

    std::size_t rank() const noexcept override { return rank_; }
    std::size_t size() const noexcept override { return boxes_.size(); }
    std::span<const std::uint32_t> hosts() const noexcept override { return job_.hosts_; }
    Hash128 job() const noexcept override { return {7, 7}; }
    Time now() const override { return std::chrono::steady_clock::now(); }

    void send(std::size_t to, coord::Packet packet) override {
      const std::lock_guard lock(mutex_);
      outgoing_.emplace_back(to, std::move(packet));
    }
    void listen(Receiver receiver, std::function<void()> /*ended*/) override {
      receiver_ = std::move(receiver);
    }
    void call_after(std::chrono::nanoseconds delay, std::function<void()> work) override {
      const std::lock_guard lock(mutex_);
      later_.push({now() + delay, std::move(work)});
    }

    bool progress() override {
      if (job_.threads_ == LentThreads::funneled && std::this_thread::get_id() != owner_) {
        return false;
      }
      if (is_turning_.exchange(true) || is_own_thread()) {
        ++job_.violations_;
        return true;
      }
      turn();
      is_turning_ = false;
      return true;
    }

   private:
    void turn() {
      send_all();
      std::deque<std::pair<std::size_t, coord::Packet>> packets;
      {
        const std::lock_guard lock(boxes_[rank_]->mutex);
        packets.swap(boxes_[rank_]->packets);
      }
      for (const auto& [from, packet] : packets) {
        receiver_(from, packet);
      }
      while (const std::function<void()> work = next_due()) {
        work();
      }
      // Words that were said for that leave with the next turn only, as the last word of a session may.
    }

    void send_all() {
      std::deque<std::pair<std::size_t, coord::Packet>> outgoing;
      {
        const std::lock_guard lock(mutex_);
        outgoing.swap(outgoing_);
      }
      for (auto& [to, packet] : outgoing) {
        const std::lock_guard lock(boxes_[to]->mutex);
        boxes_[to]->packets.emplace_back(rank_, std::move(packet));
      }
    }

    std::function<void()> next_due() {
      const std::lock_guard lock(mutex_);
      if (later_.empty() || later_.top().time > now()) {
        return nullptr;
      }
      std::function<void()> work = later_.top().work;
      later_.pop();
      return work;
    }

    LentRanks& job_;
    const std::vector<std::shared_ptr<Mailbox>> boxes_;
    const std::size_t rank_;
    const std::thread::id owner_;
    Receiver receiver_;
    std::atomic<bool> is_turning_{false};
    std::mutex mutex_;  // Protects what follows.
    std::deque<std::pair<std::size_t, coord::Packet>> outgoing_;
    std::priority_queue<Later> later_;
  };

  const LentThreads threads_;
  std::vector<std::uint32_t> hosts_;
  std::vector<std::shared_ptr<Mailbox>> boxes_;
  std::atomic<std::size_t> violations_{0};
};

}  // namespace cairn::testing
