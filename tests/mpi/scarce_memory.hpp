// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cairn::testing {

/// In programs that link scarce_memory.cpp no `new` gets more bytes than this: it throws std::bad_alloc.
inline std::atomic<std::size_t> largest_allocation{SIZE_MAX};

}  // namespace cairn::testing
