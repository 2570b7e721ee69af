// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace cairn::cli {

/// Returns what is wrong with the words that the parser refused.
[[nodiscard]] std::string usage_problem(const CLI::App& app, const CLI::ParseError& error);

/// Says on standard error what is wrong, and where help is: that of the command, where one was given.
void complain_of_usage(const CLI::App& app, const std::string& problem);

}  // namespace cairn::cli
