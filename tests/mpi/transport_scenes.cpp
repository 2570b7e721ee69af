// SPDX-License-Identifier: Apache-2.0
#include "mpi/transport_scenes.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

#include <mpi.h>

#include "cairn/base/error.hpp"
#include "cairn/mpi/transport.hpp"

#include "mpi/require.hpp"

extern "C" int MPI_Comm_split_type(MPI_Comm all, int type, int key, MPI_Info info, MPI_Comm* part) {
  if (!cairn::testing::is_each_apart) {
    return PMPI_Comm_split_type(all, type, key, info, part);
  }
  int rank = 0;
  MPI_Comm_rank(all, &rank);
  return PMPI_Comm_split(all, rank, key, part);
}

namespace cairn::testing {

using namespace std::chrono_literals;

namespace {

std::string refusal() {
  try {
    (void)mpi_transport();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

void be_refused() {
  require(refusal().find("is not initialised") != std::string::npos, refusal());
  MPI_Init(nullptr, nullptr);
  require(refusal().find("instead of MPI_Init") != std::string::npos, refusal());
  MPI_Finalize();
  require(refusal().find("MPI_Finalize was called") != std::string::npos, refusal());
}

void lend_to_thrower() {
  const std::unique_ptr<coord::Transport> transport = mpi_transport();
  bool has_thrown = false;
  bool is_called = false;
  transport->listen([](std::size_t, const coord::Packet&) {}, nullptr);
  transport->call_after(0ns, [] { throw std::runtime_error("as it was told to"); });
  try {
    transport->progress();
  } catch (const std::runtime_error&) {
    has_thrown = true;
  }
  transport->call_after(0ns, [&] { is_called = true; });
  transport->progress();
  require(has_thrown && is_called, "it goes on after a callback that throws");
}

void hear_early() {
  const std::unique_ptr<coord::Transport> transport = mpi_transport();
  if (transport->rank() == 1) {
    transport->send(0, std::make_shared<const std::string>("early"));
  }
  const auto lend_often = [&transport] {
    for (int i = 0; i < 1000; ++i) {
      require(transport->progress(), "it needs the thread");
    }
    MPI_Barrier(MPI_COMM_WORLD);
  };
  lend_often();  // Rank 1 has sent it.
  lend_often();  // It has come.
  std::string heard;
  transport->listen([&heard](std::size_t, const coord::Packet& packet) { heard = *packet; }, nullptr);
  while (transport->rank() == 0 && heard.empty()) {
    require(transport->progress(), "it needs the thread");
  }
  require(transport->rank() == 1 || heard == "early", heard);
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace cairn::testing
