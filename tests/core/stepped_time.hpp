// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "cairn/coord/transport.hpp"

#include "async/internal/event.hpp"
#include "base/internal/mutex.hpp"

namespace cairn::testing {

/// The time of a job's network, in steps: hours of silence pass in milliseconds, and no rank seems silent because the
/// machine is busy.
///
/// Outlives the transports that it gives.
class SteppedTime {
 public:
  /// A transport that sends as `inner` does, and whose clock this is.
  [[nodiscard]] std::unique_ptr<coord::Transport> slowed(std::unique_ptr<coord::Transport> inner) {
    return std::make_unique<Wire>(*this, std::move(inner));
  }

  /// Sets the clock forward. All that is due then has been done when this returns, and what was sent by it has been
  /// received.
  void advance(std::chrono::nanoseconds by) {
    const MutexLock lock(wires_mutex_);
    {
      const MutexLock lock_of_time(mutex_);
      now_ += by;
    }
    on_each([](Wire& wire) { wire.do_what_is_due(); });
    on_each([](Wire&) {});  // Transports deliver what has come before they call.
  }

 private:
  using Time = coord::Transport::Time;

  struct Later {
    Time time;
    std::function<void()> work;
    bool operator<(const Later& other) const { return other.time < time; }
  };

  class Wire final : public coord::Transport {
   public:
    Wire(SteppedTime& time, std::unique_ptr<coord::Transport> inner) : time_(time), inner_(std::move(inner)) {
      const MutexLock lock(time_.wires_mutex_);
      time_.wires_.push_back(this);
    }
    ~Wire() override {
      const MutexLock lock(time_.wires_mutex_);
      time_.wires_.erase(std::find(time_.wires_.begin(), time_.wires_.end(), this));
    }

    std::size_t rank() const noexcept override { return inner_->rank(); }
    std::size_t size() const noexcept override { return inner_->size(); }
    std::span<const std::uint32_t> hosts() const noexcept override { return inner_->hosts(); }
    Hash128 job() const noexcept override { return inner_->job(); }
    bool has_thread(std::size_t rank) const override { return inner_->has_thread(rank); }
    void send(std::size_t to, coord::Packet packet) override { inner_->send(to, std::move(packet)); }
    void listen(Receiver receiver, std::function<void()> ended) override {
      inner_->listen(std::move(receiver), std::move(ended));
    }
    void call_after(std::chrono::nanoseconds delay, std::function<void()> work) override {
      const MutexLock lock(time_.mutex_);
      later_.push({time_.now_ + delay, std::move(work)});
    }
    Time now() const override {
      const MutexLock lock(time_.mutex_);
      return time_.now_;
    }

    [[nodiscard]] coord::Transport& inner() { return *inner_; }

    void do_what_is_due() {
      MutexLock lock(time_.mutex_);
      while (!later_.empty() && later_.top().time <= time_.now_) {
        const std::function<void()> work = later_.top().work;
        later_.pop();
        lock.unlock();
        work();
        lock.lock();
      }
    }

   private:
    SteppedTime& time_;
    std::priority_queue<Later> later_;  // Protected by the mutex of the time.
    const std::unique_ptr<coord::Transport> inner_;
  };

  /// Does something on the thread of each transport, and waits for all of them.
  void on_each(const std::function<void(Wire&)>& act) CAIRN_REQUIRES(wires_mutex_) {
    std::vector<async::Event> ends;
    for (Wire* const wire : wires_) {
      const async::Event& end = ends.emplace_back();
      wire->inner().call_after(std::chrono::nanoseconds(0), [wire, &act, end] {
        act(*wire);
        end.set();
      });
    }
    for (const async::Event& end : ends) {
      end.get();
    }
  }

  Mutex wires_mutex_;  // Locked before the other.
  std::vector<Wire*> wires_ CAIRN_GUARDED_BY(wires_mutex_);
  Mutex mutex_;
  Time now_ CAIRN_GUARDED_BY(mutex_){std::chrono::hours(1)};
};

}  // namespace cairn::testing
