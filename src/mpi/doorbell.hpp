// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <mpi.h>

#include "cairn/base/hash.hpp"

namespace cairn::mpi {

/// Wakes the threads of other ranks' transports while they sleep. MPI offers no way to wait for a packet without looking for it again and
/// again; who waits for a datagram needs no processor. What ranks have to say goes by MPI all the same.
///
/// 1. All ranks tell each other where they listen (a port of UDP, and the machine's addresses).
/// 2. A rank rings; the other one answers. From then on it is known that it can be woken.
///
/// Where there are no sockets, or a firewall between machines, nobody is ever woken.
/// Threads: `ring` and `can_reach` may be called from any thread, `take` by one at a time.
class Doorbell {
 public:
  /// All ranks of the communicator make theirs together. `has_thread`: there is one to be woken here.
  Doorbell(MPI_Comm communicator, std::size_t rank, std::span<const std::uint32_t> hosts, const Hash128& job,
           bool has_thread);
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  void ring(std::size_t rank) const noexcept;
  /// Whether it has ever answered.
  [[nodiscard]] bool can_reach(std::size_t rank) const noexcept { return has_answered_[rank]; }

  /// Takes and answers what has come. Returns whether somebody rang.
  bool take() noexcept;
  /// Readable when something has come; -1 where nothing ever does.
  [[nodiscard]] int descriptor() const noexcept { return socket_; }

 private:
  static constexpr std::size_t kMostAddresses = 4;

  /// Where a rank listens; IPv4, as on the wire. A port of 0: nowhere.
  struct Place {
    std::array<std::uint32_t, kMostAddresses> addresses{};
    std::uint16_t port = 0;
  };
  struct Call {
    std::uint64_t job = 0;
    std::uint32_t from = 0;
    std::uint32_t is_answer = 0;
  };

  [[nodiscard]] static Place open(int& socket) noexcept;
  void send(const Call& call, std::uint32_t address, std::uint16_t port) const noexcept;

  const std::size_t rank_;
  const std::uint64_t job_;
  const std::vector<std::uint32_t> hosts_;
  int socket_ = -1;
  std::vector<Place> places_;
  std::unique_ptr<std::atomic<bool>[]> has_answered_;
};

}  // namespace cairn::mpi
