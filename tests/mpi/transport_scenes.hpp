// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cairn::testing {

/// Set: MPI says of each rank that it has a machine of its own.
inline bool is_each_apart = false;

/// No transport before MPI_Init_thread, after MPI_Init, or after MPI_Finalize. Calls these two.
void be_refused();

// Scenes of a transport by MPI alone, which is lent the thread that calls (MPI_THREAD_FUNNELED).
// Errors: std::runtime_error when what a scene claims does not hold on this rank.

/// What comes before anybody listens waits for whoever does, also where the transport is lent the thread meanwhile.
void hear_early();

/// A transport that is lent threads is lent them also after a callback has thrown.
void lend_to_thrower();

}  // namespace cairn::testing
