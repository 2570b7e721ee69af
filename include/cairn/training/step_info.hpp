// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "cairn/store/listing.hpp"

namespace cairn {

/// Numbers that were measured at a step, by name: "loss", "accuracy".
using Metrics = std::map<std::string, double, std::less<>>;

/// A moment as the clock of a writer of checkpoints had it: of UTC, without a time zone that could differ.
using store::CommitTime;

/// The checkpoint of a step, as far as its manifest tells.
struct StepInfo {
  std::uint64_t step = 0;
  std::filesystem::path path;
  std::optional<CommitTime> committed;  ///< Nothing where it does not say.
  std::uint64_t bytes = 0;              ///< In its files.
  Metrics metrics;
  bool is_pinned = false;  ///< Somebody wants it kept; see Checkpointer::pin.
  std::string problem;     ///< Why the manifest cannot be read, with its path; empty when it can.
};

}  // namespace cairn
