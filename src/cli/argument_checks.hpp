// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace cairn::cli {

// Checks for `transform`, so that CLI11 converts what they have understood: on its own it takes "-1" for 2^64 - 1 and
// "010" for 8. What they refuse they quote; CLI11 puts the option before it.

/// A decimal number from `least` to `most`.
[[nodiscard]] CLI::Validator whole_number(std::uint64_t least,
                                          std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

/// A finite number of at least `least`.
[[nodiscard]] CLI::Validator number(double least);

/// A number of bytes above 0, such as "300", "64KiB" or "5g". All units are powers of 1024.
[[nodiscard]] CLI::Validator size_in_bytes();

/// A pattern of paths and what becomes of those, with a '=' between them.
[[nodiscard]] CLI::Validator rename_words();

/// One of these words.
[[nodiscard]] CLI::Validator one_of(std::vector<std::string> words);

}  // namespace cairn::cli
