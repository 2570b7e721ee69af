// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cairn/coord/transport.hpp"

#include "coord/packet.hpp"

namespace cairn::testing {

/// Holds back what rank 0 says to a rank.
class HoldingWire final : public coord::Transport {
 public:
  explicit HoldingWire(std::unique_ptr<coord::Transport> wire) : wire_(std::move(wire)) {}

  void hold() { is_holding_ = true; }
  void release_in(std::chrono::milliseconds delay) {
    wire_->call_after(delay, [this] {
      is_holding_ = false;
      for (coord::Packet& packet : held_) {
        receiver_(0, std::move(packet));
      }
      held_.clear();
    });
  }

  /// Called when another rank tells this one, or this one others, that it has failed.
  std::function<void()> on_failure = [] {};

  std::size_t rank() const noexcept override { return wire_->rank(); }
  std::size_t size() const noexcept override { return wire_->size(); }
  std::span<const std::uint32_t> hosts() const noexcept override { return wire_->hosts(); }
  Hash128 job() const noexcept override { return wire_->job(); }
  bool has_thread(std::size_t rank) const override { return wire_->has_thread(rank); }
  Time now() const override { return wire_->now(); }
  void call_after(std::chrono::nanoseconds delay, std::function<void()> work) override {
    wire_->call_after(delay, std::move(work));
  }
  void send(std::size_t to, coord::Packet packet) override {
    look_at(packet);
    wire_->send(to, std::move(packet));
  }
  void listen(Receiver receiver, std::function<void()> ended) override {
    receiver_ = std::move(receiver);
    wire_->listen(
        [this](std::size_t from, coord::Packet packet) {
          if (from == 0 && is_holding_) {
            held_.push_back(std::move(packet));
            return;
          }
          look_at(packet);
          receiver_(from, std::move(packet));
        },
        std::move(ended));
  }

 private:
  void look_at(const coord::Packet& packet) const {
    if (cairn::coord::decode(*packet).head.kind == cairn::coord::PacketKind::fail) {
      on_failure();
    }
  }

  Receiver receiver_;
  std::atomic<bool> is_holding_{false};
  std::vector<coord::Packet> held_;               // Of the transport's thread.
  const std::unique_ptr<coord::Transport> wire_;  // Goes first: its thread uses the others.
};

}  // namespace cairn::testing
