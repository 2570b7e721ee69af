// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace digits {

/// Holds what the program was asked to do.
struct Arguments {
  std::filesystem::path root;    ///< Of the checkpoints.
  std::filesystem::path data;    ///< digits.csv.
  std::filesystem::path memory;  ///< Of each step, before the disk; empty: none.
  std::filesystem::path final;   ///< Where the final state goes, byte by byte; empty: nowhere.
  std::int64_t steps = 1000;
  std::int64_t save_every = 50;
  std::size_t keep = 3;  ///< Checkpoints.
  bool wants_help = false;
};

/// A command line that says nothing useful; the text says why.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Errors: UsageError.
Arguments parse_arguments(std::span<const char* const> words);

/// Returns what `program` can be asked for.
std::string usage(std::string_view program);

}  // namespace digits
