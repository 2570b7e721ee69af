// SPDX-License-Identifier: Apache-2.0
#include "sharded/job.hpp"

#include <stdexcept>

#include <cairn/mpi/transport.hpp>
#include <mpi.h>

namespace sharded {

Job::Job() {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  if (level < MPI_THREAD_MULTIPLE) {
    // The transport would want this program's thread lent to it while a save is under way.
    throw std::runtime_error("this MPI does not offer MPI_THREAD_MULTIPLE");
  }
  int number = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  rank_ = static_cast<std::uint32_t>(number);
  MPI_Comm_size(MPI_COMM_WORLD, &number);
  size_ = static_cast<std::uint32_t>(number);
  coordinator_ = std::make_shared<cairn::coord::Coordinator>(cairn::mpi_transport());
}

std::int64_t Job::broadcast(std::int64_t value) const {
  MPI_Bcast(&value, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  return value;
}

std::vector<std::int64_t> Job::gather(std::int64_t value) const {
  std::vector<std::int64_t> values(rank_ == 0 ? size_ : 0);
  MPI_Gather(&value, 1, MPI_INT64_T, values.data(), 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  return values;
}

void Job::exchange(std::span<float> values, std::span<const std::size_t> begins) const {
  std::vector<int> counts;
  std::vector<int> offsets;
  for (std::size_t rank = 0; rank < size_; ++rank) {
    counts.push_back(static_cast<int>(begins[rank + 1] - begins[rank]));
    offsets.push_back(static_cast<int>(begins[rank]));
  }
  MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values.data(), counts.data(), offsets.data(), MPI_FLOAT,
                 MPI_COMM_WORLD);
}

void Job::finish() {
  MPI_Barrier(MPI_COMM_WORLD);  // Nobody leaves while others still talk to it.
  coordinator_.reset();
  MPI_Finalize();
}

}  // namespace sharded
