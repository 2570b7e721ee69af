// SPDX-License-Identifier: Apache-2.0
#include "coord/simulated_network.hpp"

#include <algorithm>

#include <boost/asio/co_spawn.hpp>

namespace cairn::testing {

class SimulatedNetwork::Wire final : public coord::Transport {
 public:
  Wire(SimulatedNetwork& network, std::size_t rank) : network_(network), rank_(rank) {}
  ~Wire() override {
    network_.states_[rank_].is_gone = true;
    network_.states_[rank_].receiver = nullptr;
  }

  std::size_t rank() const noexcept override { return rank_; }
  std::size_t size() const noexcept override { return network_.states_.size(); }
  std::span<const std::uint32_t> hosts() const noexcept override { return network_.hosts_; }
  Hash128 job() const noexcept override { return {1, network_.states_.size()}; }
  void send(std::size_t to, coord::Packet packet) override { network_.send(rank_, to, std::move(packet)); }
  void listen(Receiver receiver, std::function<void()> /*ended*/) override {
    State& state = network_.states_[rank_];
    state.receiver = std::move(receiver);
    for (auto& [from, packet] : std::exchange(state.early, {})) {
      state.receiver(from, std::move(packet));
    }
  }
  void call_after(std::chrono::nanoseconds delay, std::function<void()> work) override {
    network_.add(network_.now_ + delay, rank_, std::move(work));
  }
  Time now() const override { return Time(network_.now_); }
  bool has_thread(std::size_t /*rank*/) const override { return !network_.options_.needs_threads; }
  bool progress() override { return network_.options_.needs_threads; }

 private:
  SimulatedNetwork& network_;
  const std::size_t rank_;
};

SimulatedNetwork::SimulatedNetwork(std::size_t ranks, SimulatedOptions options)
    : options_(options), random_(options.seed), states_(ranks) {
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    hosts_.push_back(static_cast<std::uint32_t>(rank / options.ranks_a_host));
  }
}

std::unique_ptr<coord::Transport> SimulatedNetwork::transport(std::size_t rank) {
  return std::make_unique<Wire>(*this, rank);
}

void SimulatedNetwork::cut(std::size_t one, std::size_t other) {
  cuts_.insert({one, other});
  cuts_.insert({other, one});
}

void SimulatedNetwork::send(std::size_t from, std::size_t to, coord::Packet packet) {
  if (states_[from].is_crashed || cuts_.contains({from, to})) {
    return;
  }
  ++packets_;
  states_[from].sent_bytes += packet->size();
  std::uniform_int_distribution<std::int64_t> delay(options_.least_delay.count(),
                                                    options_.most_delay.count());
  std::chrono::nanoseconds& last = last_arrival_[{from, to}];
  last = std::max(last, now_ + std::chrono::nanoseconds(delay(random_)));  // In the order of the calls.
  add(last, to, [this, from, to, packet] { deliver(from, to, packet); });
}

void SimulatedNetwork::deliver(std::size_t from, std::size_t to, coord::Packet packet) {
  State& state = states_[to];
  if (state.is_gone || cuts_.contains({from, to})) {
    return;
  }
  if (state.receiver) {
    state.receiver(from, std::move(packet));
  } else {
    state.early.emplace_back(from, std::move(packet));
  }
}

void SimulatedNetwork::add(std::chrono::nanoseconds time, std::size_t rank, std::function<void()> work) {
  happenings_.push({time, next_number_++, rank, std::move(work)});
}

void SimulatedNetwork::at(std::chrono::nanoseconds delay, std::function<void()> work) {
  add(now_ + delay, kNobody, std::move(work));
}

void SimulatedNetwork::spawn(std::size_t rank, std::chrono::nanoseconds delay, Awaitable<> program) {
  const auto kept = std::make_shared<Awaitable<>>(std::move(program));
  const auto rethrow = [](const std::exception_ptr& failure) {
    if (failure) {
      std::rethrow_exception(failure);  // Out of `run`: of the test that started it.
    }
  };
  add(now_ + delay, rank,
      [this, kept, rethrow] { boost::asio::co_spawn(context_, std::move(*kept), rethrow); });
}

void SimulatedNetwork::go_on(std::size_t rank) {
  State& state = states_[rank];
  state.is_stopped = false;
  for (auto& work : std::exchange(state.held_back, {})) {
    add(now_, rank, std::move(work));
  }
}

void SimulatedNetwork::happen(Happening happening) {
  if (happening.rank == kNobody) {
    happening.work();
    return;
  }
  State& state = states_[happening.rank];
  if (state.is_crashed) {
    return;
  }
  if (state.is_stopped) {
    state.held_back.push_back(std::move(happening.work));
    return;
  }
  happening.work();
}

bool SimulatedNetwork::run(std::chrono::nanoseconds most) {
  const std::chrono::nanoseconds end = now_ + most;
  while (true) {
    context_.restart();
    context_.poll();
    if (happenings_.empty()) {
      return true;
    }
    if (happenings_.top().time > end) {
      now_ = end;
      return false;
    }
    Happening next = happenings_.top();
    happenings_.pop();
    now_ = std::max(now_, next.time);
    happen(std::move(next));
  }
}

}  // namespace cairn::testing
