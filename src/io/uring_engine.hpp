// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "cairn/io/engine.hpp"

namespace cairn::io {

/// The engine on io_uring, or null with `error` set to the errno that says why there is none.
/// `buffered` runs what goes through the page cache: one ring would do that work in its own thread.
std::unique_ptr<Engine> make_uring_engine(std::uint32_t queue_depth, Syscalls& syscalls,
                                          std::unique_ptr<Engine> buffered, int& error);

}  // namespace cairn::io
