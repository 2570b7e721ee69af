// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
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
  /// Empty: it serves whoever uses the memory, until it is told to end.
  std::vector<std::string> program;
  /// How long a program that was told to end may take for a newer image.
  std::chrono::nanoseconds grace = std::chrono::seconds(30);
  /// How often the program is started again, in all, when it has failed. It is at once for the first time; then the
  /// pauses grow to a minute, until it has lived for as long.
  unsigned restarts = 0;
  /// It serves the program that has the memory now, and those that take it before it has ended; as a process that its
  /// parent neither waits for nor takes along.
  bool is_detached = false;
};

/// Has the last word for a program: when it has not ended in order, its newest image goes to disk. Runs the program,
/// or serves those that others start.
///
/// A disk that is full or away is tried again after 1, 2, 4 … 60 s: while it serves, or for the grace after the end of
/// its program; where that was in vain it says at its end which step is in memory only. SIGTERM, SIGINT and, unless it
/// is ignored when this begins, SIGHUP are passed on to the program, and the newest image goes to disk at once; a newer
/// one if the program makes it within the grace. A second signal ends this as soon as a copy that is under way has its
/// verdict. Reaps whatever becomes its child. Blocks these signals, and SIGCHLD, in the calling thread; the process has
/// no other thread yet.
/// Returns what the process is to exit with: 0 where it served, or goes on detached; else the status of the last
/// program, 128 and the signal that it died of; 127 and 126 where it could not be started.
/// Errors: EBUSY: another agent serves the memory.
[[nodiscard]] int run_agent(const AgentOptions& options, const ContextOptions& context);

/// Starts `cairn agent --detach` where no agent serves the memory. What it tells goes to a file there. `program` is the
/// tool, looked for in PATH. Both directories are absolute.
///
/// Errors: it cannot be started; OS errors.
void start_agent(const std::filesystem::path& program, const std::filesystem::path& memory,
                 const std::filesystem::path& root);

/// Returns the process that serves a memory as its agent; 0 where it is not to be seen from here, as in another pid
/// namespace; nothing where there is none.
[[nodiscard]] std::optional<pid_t> agent_of(const std::filesystem::path& memory);

}  // namespace cairn::flash
