// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/temp_dir.hpp"

namespace cairn::testing {

/// What the tool answered.
struct CliResult {
  int status = -1;  ///< -1 when a signal ended it.
  std::string out;
  std::string err;
};

inline std::string shell_quoted(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

/// Runs the tool with these words; `suffix` is added to the command line as it is ("| head -1").
inline CliResult run_cli(const std::vector<std::string>& words, const std::string& suffix = "") {
  const TempDir directory;
  std::string command = shell_quoted(CAIRN_CLI);
  for (const std::string& word : words) {
    command += ' ' + shell_quoted(word);
  }
  command +=
      " 2> " + shell_quoted(directory / "err") + " " + suffix + " > " + shell_quoted(directory / "out");
  const int status = std::system(command.c_str());
  CliResult result;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.out = read_text(directory / "out");
  result.err = read_text(directory / "err");
  return result;
}

}  // namespace cairn::testing
