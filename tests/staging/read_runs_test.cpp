// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/read_runs.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "staging/internal/buffer_pool.hpp"

namespace cairn::staging {
namespace {

using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

constexpr std::uint64_t kKiB = 1024;

/// The runs of pieces [begin, end), as such ranges.
Ranges runs_of(const Ranges& ranges, std::uint64_t unit_bytes) {
  std::vector<DestinationPiece> pieces;
  for (const auto& [begin, end] : ranges) {
    pieces.emplace_back();
    pieces.back().offset_bytes = begin;
    pieces.back().size_bytes = end - begin;
  }
  Ranges runs;
  for (const Run& run : plan_runs(pieces, 3 * kBufferBytes, unit_bytes)) {
    runs.emplace_back(run.offset_bytes, run.offset_bytes + run.bytes);
  }
  return runs;
}

TEST(ReadRuns, TakeWhatLiesCloseTogetherAtOnce) {
  EXPECT_EQ(runs_of({{0, 8 * kKiB}, {32 * kKiB, 40 * kKiB}}, 1), (Ranges{{0, 40 * kKiB}}));
}

TEST(ReadRuns, DoNotTakeWhatNobodyWants) {
  EXPECT_EQ(runs_of({{10, 20}, {512 * kKiB, 520 * kKiB}}, 1), (Ranges{{10, 20}, {512 * kKiB, 520 * kKiB}}));
}

TEST(ReadRuns, TakeUnitsThatPiecesShareOnce) {
  EXPECT_EQ(runs_of({{10, 20}, {30, 5000}}, 4096), (Ranges{{0, 8192}}));
}

TEST(ReadRuns, EndWithTheWindowsOfBuffers) {
  EXPECT_EQ(runs_of({{kBufferBytes - 10, kBufferBytes + 10}}, 1),
            (Ranges{{kBufferBytes - 10, kBufferBytes}, {kBufferBytes, kBufferBytes + 10}}));
}

}  // namespace
}  // namespace cairn::staging
