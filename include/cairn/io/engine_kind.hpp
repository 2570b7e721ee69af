// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cairn::io {

/// How files are read and written; see ContextOptions::engine.
enum class EngineKind : std::uint8_t { automatic, uring, threads };

}  // namespace cairn::io
