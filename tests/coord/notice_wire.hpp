// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "cairn/coord/transport.hpp"

#include "coord/notices.hpp"

namespace cairn::testing {

/// Counts the notices that a rank sends; what it is sent is lost, or comes later.
class NoticeWire final : public coord::Transport {
 public:
  enum class Fate : std::uint8_t { arrive, be_lost, be_held };

  explicit NoticeWire(std::unique_ptr<coord::Transport> wire) : wire_(std::move(wire)) {}

  [[nodiscard]] int sent() const { return sent_; }
  void set_fate(Fate fate) { fate_ = fate; }
  /// What was held comes, as if it had taken so long.
  void release() {
    fate_ = Fate::arrive;
    std::vector<coord::Packet> held;
    {
      const std::lock_guard lock(mutex_);
      held.swap(held_);
    }
    for (coord::Packet& packet : held) {
      receiver_(0, std::move(packet));
    }
  }

  [[nodiscard]] std::size_t rank() const noexcept override { return wire_->rank(); }
  [[nodiscard]] std::size_t size() const noexcept override { return wire_->size(); }
  [[nodiscard]] std::span<const std::uint32_t> hosts() const noexcept override { return wire_->hosts(); }
  [[nodiscard]] Hash128 job() const noexcept override { return wire_->job(); }
  [[nodiscard]] Time now() const override { return wire_->now(); }
  void call_after(std::chrono::nanoseconds delay, std::function<void()> work) override {
    wire_->call_after(delay, std::move(work));
  }
  void send(std::size_t to, coord::Packet packet) override {
    sent_ += coord::Notices::is_notice(*packet) ? 1 : 0;
    wire_->send(to, std::move(packet));
  }
  void listen(Receiver receiver, std::function<void()> ended) override {
    receiver_ = std::move(receiver);
    wire_->listen(
        [this](std::size_t from, coord::Packet packet) {
          const Fate fate = coord::Notices::is_notice(*packet) ? fate_.load() : Fate::arrive;
          if (fate == Fate::arrive) {
            receiver_(from, std::move(packet));
          } else if (fate == Fate::be_held) {
            const std::lock_guard lock(mutex_);
            held_.push_back(std::move(packet));
          }
        },
        std::move(ended));
  }

 private:
  Receiver receiver_;
  std::atomic<Fate> fate_ = Fate::arrive;
  std::atomic<int> sent_ = 0;
  std::mutex mutex_;  // Protects what follows.
  std::vector<coord::Packet> held_;
  const std::unique_ptr<coord::Transport> wire_;  // Goes first: its thread uses the others.
};

}  // namespace cairn::testing
