// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "training/internal/rewound.hpp"

namespace cairn::cli {

/// Returns what rewinds of a training have set aside in a directory of checkpoints.
///
/// Errors: as `store::open_root`.
[[nodiscard]] training::Rewound find_rewound(const std::filesystem::path& path);

/// Prints it below what else is said of the directory; nothing where there is nothing.
void print_rewound(Output& out, const training::Rewound& rewound);

/// Writes it as a member `rewound`.
void write_rewound(JsonWriter& json, const training::Rewound& rewound);

/// `cairn prune --rewound`: as the commands.
int prune_rewound(const Arguments& arguments, Output& out);

}  // namespace cairn::cli
