// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <queue>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cairn/coord/coordinator.hpp"
#include "cairn/coord/transport.hpp"

namespace cairn::testing {

/// A job whose ranks are in one process, each with a context of its own: for tests of what several processes do
/// together.
///
/// Each transport has a thread, which delivers what is sent to its rank. Saves of several ranks wait for each other,
/// so each rank saves on a thread of its own.
/// Ownership: transports may outlive it.
/// Threads:   every method may be called from any thread.
/// Example:   LocalRanks job(3);  options.coordinator = std::make_shared<Coordinator>(job.transport(rank));
class LocalRanks {
 public:
  explicit LocalRanks(std::size_t ranks) : hosts_(ranks, 0) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      boxes_.push_back(std::make_shared<Mailbox>());
    }
  }

  [[nodiscard]] std::size_t size() const { return boxes_.size(); }
  /// The transport of one rank; called once for each.
  [[nodiscard]] std::unique_ptr<coord::Transport> transport(std::size_t rank) {
    return std::make_unique<Wire>(boxes_, hosts_, job_, rank);
  }

  /// Loses what a rank sends, and what is sent to it, from here on: as if it had died.
  void cut(std::size_t rank) { boxes_[rank]->is_cut = true; }
  /// In all packets that a rank has sent.
  [[nodiscard]] std::uint64_t sent_bytes(std::size_t rank) const { return boxes_[rank]->sent_bytes; }

 private:
  using Time = coord::Transport::Time;

  struct Later {
    Time time;
    std::function<void()> work;
    bool operator<(const Later& other) const { return other.time < time; }
  };

  struct Mailbox {
    std::mutex mutex;  // Protects what follows.
    std::condition_variable changed;
    std::deque<std::pair<std::size_t, coord::Packet>> packets;
    std::priority_queue<Later> later;
    coord::Transport::Receiver receiver;
    bool is_closed = false;
    std::atomic<bool> is_cut{false};
    std::atomic<std::uint64_t> sent_bytes{0};
  };

  class Wire final : public coord::Transport {
   public:
    Wire(std::vector<std::shared_ptr<Mailbox>> boxes, std::vector<std::uint32_t> hosts, Hash128 job,
         std::size_t rank)
        : boxes_(std::move(boxes)), hosts_(std::move(hosts)), job_(job), rank_(rank), thread_([this] {
            serve();
          }) {}
    ~Wire() override {
      {
        const std::lock_guard lock(own().mutex);
        own().is_closed = true;
        own().changed.notify_all();
      }
      thread_.join();
    }

    std::size_t rank() const noexcept override { return rank_; }
    std::size_t size() const noexcept override { return boxes_.size(); }
    std::span<const std::uint32_t> hosts() const noexcept override { return hosts_; }
    Hash128 job() const noexcept override { return job_; }
    void send(std::size_t to, coord::Packet packet) override {
      Mailbox& box = *boxes_[to];
      own().sent_bytes += packet->size();
      if (box.is_cut || own().is_cut) {
        return;
      }
      const std::lock_guard lock(box.mutex);
      box.packets.emplace_back(rank_, std::move(packet));
      box.changed.notify_all();
    }
    void listen(Receiver receiver, std::function<void()> /*ended*/) override {
      const std::lock_guard lock(own().mutex);
      own().receiver = std::move(receiver);
      own().changed.notify_all();
    }
    void call_after(std::chrono::nanoseconds delay, std::function<void()> work) override {
      const std::lock_guard lock(own().mutex);
      own().later.push({now() + delay, std::move(work)});
      own().changed.notify_all();
    }
    Time now() const override { return std::chrono::steady_clock::now(); }
    bool has_thread(std::size_t /*rank*/) const override { return true; }

   private:
    Mailbox& own() { return *boxes_[rank_]; }

    void serve() {
      Mailbox& box = own();
      std::unique_lock lock(box.mutex);
      while (!box.is_closed) {
        std::function<void()> work;
        if (box.receiver && !box.packets.empty()) {
          work = [&box, next = std::move(box.packets.front())] { box.receiver(next.first, next.second); };
          box.packets.pop_front();
        } else if (!box.later.empty() && box.later.top().time <= now()) {
          work = box.later.top().work;
          box.later.pop();
        } else if (!box.later.empty()) {
          const Time next = box.later.top().time;  // The queue changes while this waits.
          box.changed.wait_until(lock, next);
          continue;
        } else {
          box.changed.wait(lock);
          continue;
        }
        lock.unlock();
        work();
        work = nullptr;
        lock.lock();
      }
    }

    std::vector<std::shared_ptr<Mailbox>> boxes_;
    const std::vector<std::uint32_t> hosts_;
    const Hash128 job_;
    const std::size_t rank_;
    std::thread thread_;
  };

  std::vector<std::shared_ptr<Mailbox>> boxes_;
  std::vector<std::uint32_t> hosts_;
  const Hash128 job_{1, ++jobs_};
  static inline std::atomic<std::uint64_t> jobs_{0};
};

/// Calls `act` on a thread for each rank of a job, with its coordinator. Returns what they threw, a line for each
/// rank that did.
template <class Act>
std::string failures_on_ranks(LocalRanks& job, const Act& act) {
  std::vector<std::future<void>> ends;
  for (std::size_t rank = 0; rank < job.size(); ++rank) {
    auto coordinator = std::make_shared<coord::Coordinator>(job.transport(rank));
    ends.push_back(std::async(std::launch::async, [&act, coordinator] { act(coordinator); }));
  }
  std::string failures;
  for (std::size_t rank = 0; rank < job.size(); ++rank) {
    try {
      ends[rank].get();
    } catch (const std::exception& error) {
      failures += "rank " + std::to_string(rank) + ": " + error.what() + "\n";
    }
  }
  return failures;
}

/// The same for a job of its own.
template <class Act>
std::string failures_on_ranks(std::size_t ranks, const Act& act) {
  LocalRanks job(ranks);
  return failures_on_ranks(job, act);
}

}  // namespace cairn::testing
