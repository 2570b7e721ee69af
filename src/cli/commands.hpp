// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "cli/output.hpp"

namespace cairn::cli {

/// What stands after the name of a command.
struct Arguments {
  std::filesystem::path path;
  std::string name;  ///< inspect: the checkpointable; empty: all.
  bool is_json = false;
  bool lists_arrays = false;  ///< ls --all.
  std::size_t threads = 0;    ///< verify; 0: as many as the machine has cores.
};

/// Each command writes what was asked for and returns the exit status: 0, or 1 when it has told on standard error
/// what is wrong.
///
/// Errors: whatever keeps it from answering; main() turns it into one line and the status 1.
int ls(const Arguments& arguments, Output& out);
int inspect(const Arguments& arguments, Output& out);
int verify(const Arguments& arguments, Output& out);

}  // namespace cairn::cli
