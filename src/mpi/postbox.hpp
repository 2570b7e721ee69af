// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

#include "cairn/coord/transport.hpp"

namespace cairn::mpi {

/// Packets on their way through one communicator. Larger ones go in parts, since MPI counts bytes in an int.
///
/// Threads: none of its methods at the same time as another.
class Postbox {
 public:
  explicit Postbox(MPI_Comm communicator) : communicator_(communicator) {}
  /// Leaves to MPI what it still reads or writes: nobody may wait for a rank that never receives.
  ~Postbox();
  Postbox(const Postbox&) = delete;
  Postbox& operator=(const Postbox&) = delete;

  void send(std::size_t to, const coord::Packet& packet);
  /// Takes what has come, and lets go of what has gone. Returns whether there was any.
  bool turn();
  /// The next packet that is there as a whole; null when there is none.
  [[nodiscard]] std::pair<std::size_t, coord::Packet> take();

  [[nodiscard]] bool is_sending() const noexcept { return !sends_.empty(); }
  [[nodiscard]] bool is_receiving() const noexcept { return !receipts_.empty(); }

 private:
  struct Send {
    coord::Packet packet;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  struct Receipt {
    std::size_t from = 0;
    bool is_last = true;
    std::string bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  bool accept();
  bool collect();

  const MPI_Comm communicator_;
  std::deque<Send> sends_;
  std::deque<std::unique_ptr<Receipt>> receipts_;  // In the order in which they were matched.
  std::map<std::size_t, std::string> parts_;       // By rank: of a packet that is not whole yet.
  std::deque<std::pair<std::size_t, coord::Packet>> arrived_;
};

}  // namespace cairn::mpi
