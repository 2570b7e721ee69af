// SPDX-License-Identifier: Apache-2.0
#include "mpi/doorbell.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include "mpi/mpi_error.hpp"

namespace cairn::mpi {
namespace {

/// Those of this machine that others may reach.
template <class Addresses>
void list_addresses(Addresses& addresses) noexcept {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    return;
  }
  auto next = addresses.begin();
  for (const ifaddrs* each = first; each != nullptr && next != addresses.end(); each = each->ifa_next) {
    const bool is_up = (each->ifa_flags & IFF_UP) != 0 && (each->ifa_flags & IFF_LOOPBACK) == 0;
    if (is_up && each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET) {
      *next++ = reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr.s_addr;
    }
  }
  ::freeifaddrs(first);
}

}  // namespace

Doorbell::Place Doorbell::open(int& socket) noexcept {
  Place place;
  socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t bytes = sizeof name;
  auto* const any = reinterpret_cast<sockaddr*>(&name);
  if (socket >= 0 && ::bind(socket, any, bytes) == 0 && ::getsockname(socket, any, &bytes) == 0) {
    place.port = name.sin_port;
    list_addresses(place.addresses);
  }
  return place;
}

Doorbell::Doorbell(MPI_Comm communicator, std::size_t rank, std::span<const std::uint32_t> hosts,
                   const Hash128& job, bool has_thread)
    : rank_(rank),
      job_(job.low),
      hosts_(hosts.begin(), hosts.end()),
      places_(hosts.size()),
      has_answered_(std::make_unique<std::atomic<bool>[]>(hosts.size())) {
  const Place here = has_thread ? open(socket_) : Place();
  check(MPI_Allgather(&here, sizeof here, MPI_BYTE, places_.data(), sizeof here, MPI_BYTE, communicator),
        "MPI_Allgather");
}

Doorbell::~Doorbell() {
  if (socket_ >= 0) {
    ::close(socket_);
  }
}

void Doorbell::send(const Call& call, std::uint32_t address, std::uint16_t port) const noexcept {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = address;
  name.sin_port = port;
  // It may be lost, as any datagram: who rings rings again.
  static_cast<void>(::sendto(socket_, &call, sizeof call, MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&name), sizeof name));
}

void Doorbell::ring(std::size_t rank) const noexcept {
  const Place& place = places_[rank];
  if (socket_ < 0 || place.port == 0) {
    return;
  }
  const Call call{job_, static_cast<std::uint32_t>(rank_), 0};
  if (hosts_[rank] == hosts_[rank_]) {
    send(call, htonl(INADDR_LOOPBACK), place.port);
  }
  for (const std::uint32_t address : place.addresses) {
    if (address != 0) {
      send(call, address, place.port);
    }
  }
}

bool Doorbell::take() noexcept {
  bool has_rung = false;
  Call call;
  sockaddr_in from{};
  socklen_t bytes = sizeof from;
  while (socket_ >= 0) {
    const ssize_t got =
        ::recvfrom(socket_, &call, sizeof call, 0, reinterpret_cast<sockaddr*>(&from), &bytes);
    if (got < 0) {
      break;
    }
    bytes = sizeof from;
    if (got != sizeof call || call.job != job_ || call.from >= places_.size()) {
      continue;  // Of somebody else.
    }
    if (call.is_answer != 0) {
      has_answered_[call.from] = true;
    } else {
      has_rung = true;
      send({job_, static_cast<std::uint32_t>(rank_), 1}, from.sin_addr.s_addr, from.sin_port);
    }
  }
  return has_rung;
}

}  // namespace cairn::mpi
