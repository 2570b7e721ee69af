// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "cairn/async/awaitable.hpp"
#include "cairn/coord/transport.hpp"

namespace cairn::testing {

struct SimulatedOptions {
  SimulatedOptions() = default;

  std::uint64_t seed = 1;
  std::chrono::nanoseconds least_delay = std::chrono::microseconds(1);
  std::chrono::nanoseconds most_delay = std::chrono::milliseconds(1);
  std::size_t ranks_a_host = 4;
  bool needs_threads = false;  ///< Transports say so, and work all the same.
};

/// A job of many ranks in one thread, whose time is ours: packets take as long as a seed says, ranks crash, stop and
/// go on.
///
/// Coroutines of the ranks run on `executor()`, in `run`.
class SimulatedNetwork {
 public:
  explicit SimulatedNetwork(std::size_t ranks, SimulatedOptions options = {});

  [[nodiscard]] std::unique_ptr<coord::Transport> transport(std::size_t rank);
  [[nodiscard]] boost::asio::io_context::executor_type executor() { return context_.get_executor(); }

  /// From here on nothing of a rank happens, and what is sent to it is lost.
  void crash(std::size_t rank) { states_[rank].is_crashed = true; }
  /// Nothing of a rank happens until it goes on; then all that was meant for it does, in order.
  void stop(std::size_t rank) { states_[rank].is_stopped = true; }
  void go_on(std::size_t rank);
  /// Packets between two ranks are lost from here on.
  void cut(std::size_t one, std::size_t other);

  /// Starts what a rank does, in so much time.
  void spawn(std::size_t rank, std::chrono::nanoseconds delay, Awaitable<> program);
  /// Something that happens in so much time, to nobody in particular.
  void at(std::chrono::nanoseconds delay, std::function<void()> work);

  /// Runs until nothing is left to happen, or for `most` of simulated time. Returns whether nothing is left.
  bool run(std::chrono::nanoseconds most = std::chrono::hours(24));

  [[nodiscard]] std::chrono::nanoseconds now() const { return now_; }
  [[nodiscard]] std::uint64_t packets() const { return packets_; }
  /// Of packets that a rank has sent.
  [[nodiscard]] std::uint64_t sent_bytes(std::size_t rank) const { return states_[rank].sent_bytes; }

 private:
  class Wire;

  struct Happening {
    std::chrono::nanoseconds time;
    std::uint64_t number;  // Of two at once the first goes first.
    std::size_t rank;
    std::function<void()> work;

    bool operator<(const Happening& other) const {
      return std::pair(other.time, other.number) < std::pair(time, number);
    }
  };

  struct State {
    bool is_crashed = false;
    bool is_stopped = false;
    bool is_gone = false;
    std::uint64_t sent_bytes = 0;
    coord::Transport::Receiver receiver;
    std::vector<std::pair<std::size_t, coord::Packet>> early;
    std::deque<std::function<void()>> held_back;
  };

  void send(std::size_t from, std::size_t to, coord::Packet packet);
  void deliver(std::size_t from, std::size_t to, coord::Packet packet);
  void add(std::chrono::nanoseconds time, std::size_t rank, std::function<void()> work);
  void happen(Happening happening);

  static constexpr std::size_t kNobody = ~std::size_t{0};

  const SimulatedOptions options_;
  std::mt19937_64 random_;
  boost::asio::io_context context_;
  std::vector<std::uint32_t> hosts_;
  std::vector<State> states_;
  std::set<std::pair<std::size_t, std::size_t>> cuts_;
  std::map<std::pair<std::size_t, std::size_t>, std::chrono::nanoseconds> last_arrival_;
  std::priority_queue<Happening> happenings_;
  std::chrono::nanoseconds now_{0};
  std::uint64_t next_number_ = 0;
  std::uint64_t packets_ = 0;
};

}  // namespace cairn::testing
