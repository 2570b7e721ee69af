// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "cairn/base/hash.hpp"

namespace cairn::coord {

/// Bytes on their way to other ranks. Shared, because one text often goes to several.
using Packet = std::shared_ptr<const std::string>;

/// Carries packets between the processes of one job: ranks 0 to size() - 1. Knows nothing of what they say.
///
/// Packets of one rank to another arrive in the order in which they were sent, or not at all when one of the two is
/// gone. Nobody is told of that: silence is what counts.
/// Threads: `send`, `call_after` and `now` may be called from any thread. What `listen` and `call_after` are given is
///          called by one thread of the transport's, never by two at once; it must neither block nor throw.
/// Destructor: flushes queued packets for at most one second; returns when no callback runs, or will run.
class Transport {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Receiver = std::function<void(std::size_t from, Packet packet)>;

  virtual ~Transport() = default;

  [[nodiscard]] virtual std::size_t rank() const noexcept = 0;
  [[nodiscard]] virtual std::size_t size() const noexcept = 0;
  /// One number for each rank: those with the same one share a machine.
  [[nodiscard]] virtual std::span<const std::uint32_t> hosts() const noexcept = 0;
  /// Returns what all ranks of this job have alike, and no other job: random bits that one of them has told
  /// the others.
  [[nodiscard]] virtual Hash128 job() const noexcept = 0;

  /// Returns at once, also when `to` never receives.
  virtual void send(std::size_t to, Packet packet) = 0;
  /// Says who is given what arrives, and who is told when the transport ends before it is destroyed. Called once;
  /// what came before is kept for it.
  virtual void listen(Receiver receiver, std::function<void()> ended) = 0;
  /// Calls `work` in so much time: the only clock of what is built on top, so that tests can have one of their own.
  virtual void call_after(std::chrono::nanoseconds delay, std::function<void()> work) = 0;
  [[nodiscard]] virtual Time now() const = 0;

  /// Returns whether the transport of that rank has a thread of its own, which delivers what is sent to it at
  /// any time. Then a rank that does not answer is lost, whatever its program does; else its silence counts
  /// only while it takes part in something.
  [[nodiscard]] virtual bool has_thread(std::size_t /*rank*/) const { return false; }
  /// Says how long a packet may wait in a transport whose thread has nothing to do. Called before `listen`.
  virtual void look_within(std::chrono::nanoseconds /*latest*/) {}

  /// Lends the transport the calling thread, where it may have none of its own (MPI_THREAD_FUNNELED); returns whether
  /// it needs that of this thread. Queued packets are sent during calls, so call once more after the last round of a
  /// session. Calls of this library that block lend the thread that they block, unless the library has started it.
  ///
  /// Threads: may be called from any thread; does nothing on one that it must not use, or while another is lent.
  virtual bool progress() { return false; }
};

}  // namespace cairn::coord
