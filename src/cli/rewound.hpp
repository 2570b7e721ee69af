// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/report.hpp"
#include "training/internal/rewound.hpp"

namespace cairn::cli {

/// Returns what rewinds of a training have set aside in a directory of checkpoints.
///
/// Errors: as `store::open_root`.
[[nodiscard]] training::Rewound find_rewound(const std::filesystem::path& path);

/// Adds it to an answer about the directory: a table for people, `rewound` for programs.
void add_rewound(Report& report, const training::Rewound& rewound);

/// `cairn prune --rewound`: as the commands.
int prune_rewound(const Arguments& arguments, Output& out);

}  // namespace cairn::cli
