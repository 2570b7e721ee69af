// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/read_runs.hpp"

#include <algorithm>

#include "base/internal/assert.hpp"
#include "staging/internal/buffer_pool.hpp"

namespace cairn::staging {
namespace {

/// Shorter gaps are read, which costs less than a read of its own for what lies behind them.
constexpr std::uint64_t kFewestSkippedBytes = std::uint64_t{32} << 10;

/// Returns whether bytes that begin at `begin` are read with a run that lies before them.
bool continues(const Run& run, std::uint64_t begin) {
  return run.offset_bytes / kBufferBytes == begin / kBufferBytes &&
         begin < run.offset_bytes + run.bytes + kFewestSkippedBytes;
}

/// Adds a run, or widens the last one.
void add_range(std::vector<Run>& runs, std::uint64_t begin, std::uint64_t end) {
  for (const Run& run : cut_at_windows(begin, end)) {
    if (!runs.empty() && continues(runs.back(), run.offset_bytes)) {
      Run& last = runs.back();
      const std::uint64_t last_end = std::max(run.offset_bytes + run.bytes, last.offset_bytes + last.bytes);
      CAIRN_ASSERT(last_end <= (last.offset_bytes / kBufferBytes + 1) * kBufferBytes,
                   "runs that become one lie in one window");
      last.bytes = static_cast<std::size_t>(last_end - last.offset_bytes);
    } else {
      runs.push_back(run);
    }
  }
}

}  // namespace

std::vector<Run> cut_at_windows(std::uint64_t begin, std::uint64_t end) {
  std::vector<Run> runs;
  CAIRN_ASSERT(begin <= end, "a range does not end before it begins");
  while (begin < end) {
    const std::uint64_t run_end = std::min(end, (begin / kBufferBytes + 1) * kBufferBytes);
    runs.push_back({begin, static_cast<std::size_t>(run_end - begin)});
    begin = run_end;
  }
  return runs;
}

std::vector<Run> plan_runs(std::span<const DestinationPiece> pieces, std::uint64_t file_bytes,
                           std::uint64_t unit_bytes) {
  std::vector<Run> runs;
  for (const DestinationPiece& piece : pieces) {
    CAIRN_ASSERT(unit_bytes > 0 && piece.offset_bytes + piece.size_bytes <= file_bytes,
                 "pieces lie within their file");
    // Without overflow: the piece lies within the file.
    const std::uint64_t last = piece.offset_bytes + piece.size_bytes;
    const std::uint64_t widened = last / unit_bytes * unit_bytes + (last % unit_bytes != 0 ? unit_bytes : 0);
    add_range(runs, piece.offset_bytes / unit_bytes * unit_bytes, std::min(file_bytes, widened));
  }
  return runs;
}

}  // namespace cairn::staging
