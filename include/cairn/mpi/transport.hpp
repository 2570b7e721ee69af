// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <mpi.h>

#include "cairn/coord/coordinator.hpp"  // What programs make of it.
#include "cairn/coord/transport.hpp"

namespace cairn {

/// Carries packets by MPI, between all ranks of `communicator`; collective, as what duplicates a communicator is.
///
/// With MPI_THREAD_MULTIPLE a thread of its own does that. While something is under way here (a packet to send, a
/// session that was joined) it looks for packets every 50 µs, less and less often down to every 2 ms, and sleeps
/// otherwise. Ranks of its machine wake it when they send it something, by memory that they share: where all can, it
/// looks every 2 ms as soon as it has found what it was woken for. Where some cannot, it looks once in the time of
/// `look_within` even when nothing is under way. With less than MPI_THREAD_MULTIPLE it has none: saves, loads and waits
/// that block carry packets themselves, and between them the program does, by `Coordinator::progress`. With
/// MPI_THREAD_FUNNELED that is the thread that has made the transport, and no other; with MPI_THREAD_SERIALIZED any,
/// and calls that block count as calls of MPI, which the program makes one at a time. MPI_Finalize closes it; then it
/// sends and receives nothing more, and the listener is told. The duplicate is MPI's to free.
/// Errors: Errc::invalid_argument when MPI was not initialised, was finalised, or MPI_Init was called instead of
///         MPI_Init_thread with MPI_THREAD_FUNNELED at least; Errc::io_failure with MPI's own words.
[[nodiscard]] std::unique_ptr<coord::Transport> mpi_transport(MPI_Comm communicator = MPI_COMM_WORLD);

}  // namespace cairn
