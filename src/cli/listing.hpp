// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cairn::cli {

/// One checkpoint of a directory of them.
struct Listed {
  std::string name;
  std::uint32_t generation = 1;
  std::string committed;
  std::uint64_t checkpointables = 0;
  std::uint64_t bytes = 0;
  std::string problem;  ///< Why it cannot be read; empty when it can.
};

/// The checkpoints that lie in a directory, in the order of their names; of each the latest generation.
///
/// Errors: OS errors on the directory itself. What is wrong with a checkpoint is its `problem`.
[[nodiscard]] std::vector<Listed> find_checkpoints(const std::filesystem::path& path);

}  // namespace cairn::cli
