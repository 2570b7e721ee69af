// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "io/internal/engine.hpp"

namespace cairn::io {

/// The engine on io_uring, or null with `error` set to the errno that says why there is none; ECANCELED: the kernel
/// can start no thread for it. `threads` runs what goes through the page cache, since one ring would do that work in
/// its own thread, and all of it should the ring be refused later; it is taken when there is an engine.
std::unique_ptr<Engine> make_uring_engine(std::uint32_t queue_depth, Syscalls& syscalls,
                                          std::unique_ptr<Engine>& threads, int& error);

/// Returns what `error` says of a ring, to people, with the limits that may be behind it.
std::string why_no_ring(int error);

}  // namespace cairn::io
