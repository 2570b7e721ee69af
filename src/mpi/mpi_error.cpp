// SPDX-License-Identifier: Apache-2.0
#include "mpi/mpi_error.hpp"

#include <cstddef>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::mpi {

void check(int result, std::string_view call) {
  if (result == MPI_SUCCESS) {
    return;
  }
  char words[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(result, words, &length);
  throw Error(Errc::io_failure,
              fmt::format("{}: {}", call, std::string_view(words, static_cast<std::size_t>(length))));
}

}  // namespace cairn::mpi
