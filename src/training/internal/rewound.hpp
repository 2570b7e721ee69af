// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/store/reports.hpp"

#include "io/internal/file.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::training {

/// Holds in a root the steps that rewinds have set aside: for each rewind a directory called "<seconds since
/// 1970>-<uuid>", which is a directory of checkpoints.
///
/// Links in it are never followed, and what no rewind has made there is never touched.
/// Source: docs/format.md, "Steps of a training".
inline constexpr std::string_view kRewoundName = ".cairn-rewound";

/// The end of a line of steps, which a rewind has set aside.
struct RewoundLine {
  std::string name;               ///< Of its directory in `.cairn-rewound`.
  std::chrono::sys_seconds time;  ///< Of the rewind.
  std::vector<store::FoundCheckpoint>
      checkpoints;      ///< In the order of their names, what is not sound included.
  std::string problem;  ///< Why it cannot be looked at; empty when it can.
};

/// The lines of steps that lie in `.cairn-rewound`.
struct Rewound {
  std::vector<RewoundLine> lines;  ///< The earliest rewind first.
  std::vector<std::string> notes;  ///< A sentence on each thing that no rewind has made.
};

/// Returns what rewinds have set aside. Changes nothing, blocks.
[[nodiscard]] Rewound list_rewound(const io::Directory& root);

/// Makes a directory for what the next rewind sets aside, and makes its name durable. It comes after all that are
/// there.
///
/// Errors: OS errors: ELOOP or ENOTDIR where something else is called `.cairn-rewound`.
[[nodiscard]] io::Directory make_rewound_line(const io::Directory& root,
                                              std::chrono::system_clock::time_point now,
                                              const store::RandomSource& random);

/// What came back to a root.
struct BroughtBack {
  std::vector<std::string> checkpoints;  ///< Their names, the lowest first.
  /// In a run that keeps steps in memory: earlier images from this step on stay given up, also of what came back.
  std::optional<std::uint64_t> images_given_up_from;
};

/// Moves the checkpoints of a line back to the root. The lowest goes first, one rename each: a crash leaves a shorter
/// line, and never a gap; called again it goes on. Blocks.
///
/// Errors: Errc::not_found: there is no such line, or no checkpoint in it. Errc::already_exists: the root has one of
///         that name, or one that comes after the lowest of the line. Errc::invalid_argument: somebody writes there.
///         Then nothing is moved. OS errors.
BroughtBack bring_back(const io::Directory& root, const std::string& line);

/// Removes the checkpoints of a line, the highest first, and its directory where nothing else is left in it. Returns a
/// sentence on each thing that stays: damaged checkpoints whose files cannot be told from others, and what is not
/// Cairn's. Blocks.
///
/// Errors: Errc::not_found: there is no such line. OS errors.
std::vector<std::string> remove_rewound(const io::Directory& root, const std::string& line,
                                        const store::RandomSource& random);

}  // namespace cairn::training
