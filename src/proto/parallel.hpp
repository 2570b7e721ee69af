// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace cairn::proto {

/// Calls `body` with 0 … count - 1, on the calling thread and on others, `threads` in all. After all calls have ended
/// it throws the failure of the lowest number.
void in_parallel(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& body);

/// Returns how many threads work on so many bytes, where `wanted` is 0; else that.
[[nodiscard]] unsigned threads_for(std::uint64_t bytes, unsigned wanted);

}  // namespace cairn::proto
