// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cairn/store/reports.hpp"
#include "cairn/training/step_directory.hpp"

#include "cli/report.hpp"

namespace cairn::cli {

/// Holds what a listing tells of a checkpoint that is a step of a training.
struct StepFacts {
  std::optional<std::uint64_t> step;  ///< Nothing: it is none.
  Metrics metrics;
  bool is_pinned = false;
};

/// Returns the facts on the checkpoints of a directory, in their order.
///
/// Errors: OS errors on the directory.
[[nodiscard]] std::vector<StepFacts> step_facts(const std::filesystem::path& root,
                                                const std::vector<store::FoundCheckpoint>& checkpoints);

/// "accuracy=0.9 loss=0.25" for people, members with their keys for programs; nothing where there are none.
[[nodiscard]] Cell metrics_cell(const Metrics& metrics);

}  // namespace cairn::cli
