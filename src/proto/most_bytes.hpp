// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cairn/proto/merger.hpp"

#include "base/internal/limits.hpp"

namespace cairn::proto {

/// Returns MergeOptions::most_bytes, or what stands for 0.
[[nodiscard]] inline std::uint64_t most_bytes_of(const MergeOptions& options) {
  return options.most_bytes != 0 ? options.most_bytes : default_unpacked_bytes();
}

}  // namespace cairn::proto
