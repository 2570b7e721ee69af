// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "io/internal/engine.hpp"

namespace cairn::io {

/// The engine that works everywhere: a few threads that read and write one request each, oldest first.
std::unique_ptr<Engine> make_thread_engine(std::uint32_t threads, Syscalls& syscalls);

}  // namespace cairn::io
