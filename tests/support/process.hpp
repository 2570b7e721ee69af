// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace cairn::testing {

/// A program that runs beside the test, and what it says. Killed at the end, if it still runs.
class Process {
 public:
  Process(std::string program, std::vector<std::string> arguments);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t id() const { return id_; }
  /// Waits until it has said something, or has ended.
  void await_first_word();
  void signal(int number) const;
  /// Writes a line to its standard input; nothing happens when it has ended.
  void tell(const std::string& line) const;
  /// Takes the next line that it says; empty when it has ended first.
  [[nodiscard]] std::string next_line();
  /// Waits for its end; a child of its own may still run.
  void await_end() const;
  /// Waits for its end, and that of whoever else has its output. Returns all that it has said and nobody has taken, a
  /// line each; what a signal cut off is none.
  [[nodiscard]] std::vector<std::string> finish();

 private:
  /// Reads once. Returns false at the end.
  bool read_more();

  pid_t id_ = 0;
  int input_ = -1;
  int output_ = -1;
  std::string text_;
};

}  // namespace cairn::testing
