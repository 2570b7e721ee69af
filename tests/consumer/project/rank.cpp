// SPDX-License-Identifier: Apache-2.0
// The same as one rank of a job: alone, or with others under mpirun.
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>

#include <cairn/cairn.hpp>
#include <cairn/coord/coordinator.hpp>
#include <cairn/mpi/transport.hpp>

int save_with_others() try {
  cairn::ContextOptions options;
  options.coordinator = std::make_shared<cairn::coord::Coordinator>(cairn::mpi_transport());
  const std::size_t rank = options.coordinator->rank();
  const cairn::Context context(std::move(options));
  const cairn::SaveResult saved = cairn::save("checkpoint of ranks", cairn::Tree{{"step", 7}}, {}, context);
  std::cout << "rank " << rank << " has saved " << saved.bytes << " bytes with the others\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}

int main(int argc, char** argv) {
  std::filesystem::remove_all("checkpoint of ranks");
  int offered = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &offered);
  const int result = save_with_others();
  MPI_Finalize();
  return result;
}
