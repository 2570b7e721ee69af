// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/internal/verify.hpp"

namespace cairn::cli {

/// Something to be verified.
struct VerifyTarget {
  std::filesystem::path path;
  std::string directory;    ///< Of one checkpointable of it; empty: all.
  bool is_foreign = false;  ///< Files of other programs.
  bool is_records = false;  ///< A file of records, which has hashes of its own.
  std::string layout;       ///< By which those are read; empty: the one that recognises them.
  bool is_listed = false;   ///< One of those that a directory holds.
  std::uint64_t bytes = 0;  ///< Of its files.
  std::string problem;      ///< Why it cannot be verified at all; empty when it can.
  /// What a save has left or is writing, or an older generation: the class and the reason. It does not count.
  std::string aside;
};

/// The outcome of verifying a target.
struct VerifyOutcome {
  VerifyTarget target;
  std::optional<store::VerifyReport> report;  ///< Nothing where there is a problem.
  std::uint64_t members = 0;          ///< Of archives of other programs, that were compared with their sums.
  std::uint64_t unchecked_bytes = 0;  ///< Of other programs' files, that have no sums.
  std::vector<std::string> notes;     ///< What a load leaves out of those, or tells of them.
  std::vector<std::string> unchecked_files;  ///< Of them those of which no byte has one.

  [[nodiscard]] bool is_sound() const { return target.problem.empty() && (!report || report->is_sound()); }
};

/// Returns what `path` stands for: itself or, where it is a directory of checkpoints or of several archives, all in it
/// that is or was Cairn's, or is another program's; there may be none. `layout` is for files of other programs.
///
/// Errors: whatever keeps it from being opened, unless it is one checkpoint of several.
[[nodiscard]] std::vector<VerifyTarget> verify_targets_of(const std::filesystem::path& path,
                                                          const std::string& layout);

struct VerifyManyOptions {
  VerifyManyOptions() = default;

  std::size_t jobs = 0;     ///< Targets at once; 0: as many as the machine has cores.
  std::size_t threads = 0;  ///< For all of them together; 0: as many as the machine has cores.
  /// Called about ten times a second on the calling thread.
  std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)> progress;
};

/// Verifies all of them, several at a time; in their order. What stops one is its problem, and stops no
/// other.
[[nodiscard]] std::vector<VerifyOutcome> verify_all(std::span<const VerifyTarget> targets,
                                                    const VerifyManyOptions& options);

}  // namespace cairn::cli
