// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "cli/output.hpp"
#include "cli/window.hpp"

namespace cairn::cli {

/// Prints the elements of a window, row-major, in nested brackets and columns as numpy does; "..." stands for what is
/// left out.
///
/// `cells` are as many as the window shows.
void print_grid(Output& out, const Window& window, std::span<const std::string> cells);

}  // namespace cairn::cli
