// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace cairn::verdicts {

/// Prints `story`, the name, the state and the stack of every thread.
void report_threads(const std::string& story);

/// As above, and ends the process: for a program that hangs.
[[noreturn]] void report_hang(const std::string& story);

}  // namespace cairn::verdicts
