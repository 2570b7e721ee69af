// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <mpi.h>

namespace cairn::mpi {

/// Throws what MPI says of a call that did not succeed: Errc::io_failure, "<call>: <words>".
void check(int result, std::string_view call);

}  // namespace cairn::mpi
