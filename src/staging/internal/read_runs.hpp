// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cairn/staging/pieces.hpp"

namespace cairn::staging {

/// A range of a file that is read at once: it lies within one window of `kBufferBytes`.
struct Run {
  std::uint64_t offset_bytes = 0;
  std::size_t bytes = 0;
};

/// Cuts a range at windows.
[[nodiscard]] std::vector<Run> cut_at_windows(std::uint64_t begin, std::uint64_t end);

/// Returns what is read for `pieces`, which are arranged: widened to multiples of `unit_bytes` (but for the
/// end of the file), in their order. What lies in one window is one run, unless there is much to skip in it.
[[nodiscard]] std::vector<Run> plan_runs(std::span<const DestinationPiece> pieces, std::uint64_t file_bytes,
                                         std::uint64_t unit_bytes);

}  // namespace cairn::staging
