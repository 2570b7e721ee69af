// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cairn/core/context.hpp"

namespace cairn::flash {

struct AgentOptions {
  AgentOptions() = default;

  std::filesystem::path memory;  ///< As FlashOptions::memory; may be yet to be made.
  std::filesystem::path root;    ///< The directory of steps.
  std::vector<std::string> program;
  /// How long a program that was told to end may take for a newer image.
  std::chrono::nanoseconds grace = std::chrono::seconds(30);
  /// How often it is started again, in all, when it has failed.
  unsigned restarts = 0;
};

/// Copies the newest image that is sound to the directory of steps, if it is newer than all that are there. Returns its
/// step; nothing where there is none to copy.
///
/// Errors: Errc::invalid_argument: the memory is that of another run; as copy_checkpoint.
std::optional<std::uint64_t> persist_newest(const std::filesystem::path& memory,
                                            const std::filesystem::path& root, const Context& context);

/// Runs a program, and has the last word for it: when it has not ended in order, its newest image goes to disk.
///
/// SIGTERM and SIGINT are passed on to the program, and the newest image goes to disk at once; a newer one if the
/// program makes it within the grace. A second signal ends this as soon as a commit that is under way has its verdict.
/// Reaps whatever becomes its child. Blocks these signals, and SIGCHLD, in the calling thread; the process has no other
/// thread yet.
/// Returns what the process is to exit with: the status of the last program, 128 and the signal that it died of; 127
/// and 126 where it could not be started.
[[nodiscard]] int run_agent(const AgentOptions& options, const ContextOptions& context);

}  // namespace cairn::flash
