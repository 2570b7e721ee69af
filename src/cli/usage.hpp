// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

namespace cairn::cli {

/// Returns the one of the words that `word` was probably meant for: at most two letters are other ones. Empty when none
/// is near.
[[nodiscard]] std::string nearest_word(std::string_view word, std::span<const std::string> known);

/// Returns what is wrong with the words that the parser took for the program of `cairn agent`, of which so many stood
/// behind "--"; empty when nothing is.
[[nodiscard]] std::string program_problem(const CLI::App& agent, std::span<const std::string> program,
                                          std::size_t behind_dashes);

/// Returns what is wrong with the words that the parser refused.
[[nodiscard]] std::string usage_problem(const CLI::App& app, const CLI::ParseError& error);

/// Says on standard error what is wrong, and where help is: that of the command, where one was given.
void complain_of_usage(const CLI::App& app, const std::string& problem);

}  // namespace cairn::cli
