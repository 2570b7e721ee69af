// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "staging/internal/read_runs.hpp"

namespace cairn::joint {

/// What one rank wants of files, by their names: ranges that begin and end at chunks, where the file has hashes, at
/// pages, or with the file; in order, apart from each other.
using Wants = std::map<std::string, std::vector<staging::Run>, std::less<>>;

/// The part of one rank in reading files that several want.
struct SharedPlan {
  struct Read {
    std::uint32_t file = 0;       ///< Which of `files`.
    std::uint32_t receivers = 0;  ///< Which of `groups`.
    staging::Run run;
  };

  std::vector<std::string> files;                ///< The same on all ranks.
  std::vector<std::vector<std::size_t>> groups;  ///< Sets of ranks that this one passes a run on to.
  std::vector<Read> reads;                       ///< By file and offset.
  std::uint64_t to_receive = 0;                  ///< How many runs others pass on to this rank.
};

/// Gives each range one reader among the ranks that want it: the one that has least to read so far, in windows of one
/// buffer. Where ranks are in groups, which `group_of_rank` numbers, that is so within each group.
///
/// Returns a plan for each rank. Takes as long as ranks have ranges, not as they have bytes.
[[nodiscard]] std::vector<SharedPlan> plan_shared_reads(std::span<const Wants> by_rank,
                                                        std::span<const std::uint32_t> group_of_rank = {});

[[nodiscard]] std::string encode_wants(const Wants& wants);
/// Errors: Errc::malformed_metadata.
[[nodiscard]] Wants decode_wants(std::string_view text);
[[nodiscard]] std::string encode_plan(const SharedPlan& plan);
/// Errors: Errc::malformed_metadata.
[[nodiscard]] SharedPlan decode_plan(std::string_view text);

}  // namespace cairn::joint
