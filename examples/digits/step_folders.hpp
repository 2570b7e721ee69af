// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <cairn/core/context.hpp>
#include <cairn/observe/report.hpp>

namespace digits {

/// The checkpoints of one training, each called after its step, as a start finds them.
struct StepFolders {
  std::vector<std::int64_t> committed;  ///< Sorted.
  std::size_t removed = 0;              ///< What killed runs had left.
};

/// Makes the folder, or cleans it of what a killed run has left and finds its checkpoints.
StepFolders recover_step_folders(const std::filesystem::path& root, const cairn::Context& context);

/// "blocking_us=… durable_us=… bytes=… files=… engine=…"
std::string facts_of(const cairn::SaveResult& result);

}  // namespace digits
