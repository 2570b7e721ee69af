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

#include "cairn/coord/transport.hpp"

namespace cairn::bench {

/// Counts the bytes that a rank sends by another transport.
///
/// Threads: as that of the other.
class CountingTransport final : public coord::Transport {
 public:
  using Count = std::shared_ptr<std::atomic<std::uint64_t>>;

  CountingTransport(std::unique_ptr<coord::Transport> transport, Count sent_bytes)
      : transport_(std::move(transport)), sent_bytes_(std::move(sent_bytes)) {}

  std::size_t rank() const noexcept override { return transport_->rank(); }
  std::size_t size() const noexcept override { return transport_->size(); }
  std::span<const std::uint32_t> hosts() const noexcept override { return transport_->hosts(); }
  Hash128 job() const noexcept override { return transport_->job(); }
  Time now() const override { return transport_->now(); }
  bool progress() override { return transport_->progress(); }

  void send(std::size_t to, coord::Packet packet) override {
    *sent_bytes_ += packet->size();
    transport_->send(to, std::move(packet));
  }

  void listen(Receiver receiver, std::function<void()> ended) override {
    transport_->listen(std::move(receiver), std::move(ended));
  }

  void call_after(std::chrono::nanoseconds delay, std::function<void()> work) override {
    transport_->call_after(delay, std::move(work));
  }

 private:
  const std::unique_ptr<coord::Transport> transport_;
  const Count sent_bytes_;
};

}  // namespace cairn::bench
