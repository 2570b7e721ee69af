// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace cairn::kill {

/// A `victim` with these arguments, and what it says. Killed at the end, if it still runs.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Waits until it has said something, or has ended.
  void await_first_word();
  void signal(int number) const;
  /// Waits for its end. Returns all that it has said, a line each; what a signal cut off is none.
  [[nodiscard]] std::vector<std::string> finish();

 private:
  /// Reads once. Returns false at the end.
  bool read_more();

  pid_t id_ = 0;
  int output_ = -1;
  std::string text_;
};

}  // namespace cairn::kill
