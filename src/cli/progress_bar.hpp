// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "base/internal/clock.hpp"

namespace cairn::cli {

/// Is told how far work is.
using Progress = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

/// The line of a progress bar, not wider than `columns`: "[####......]  40 %  1.6 GiB of 4.0 GiB  1.1 GiB/s  2 s left".
[[nodiscard]] std::string progress_line(std::uint64_t done_bytes, std::uint64_t total_bytes,
                                        std::chrono::duration<double> elapsed, std::size_t columns);

/// A progress bar for people who wait longer than a second at a terminal; nobody else sees it.
class ProgressBar {
 public:
  explicit ProgressBar(std::FILE* terminal, const Clock& clock = system_clock());
  /// Removes the bar.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Draws it ten times a second at most.
  void update(std::uint64_t done_bytes, std::uint64_t total_bytes);

 private:
  std::FILE* terminal_;
  bool is_terminal_;
  bool is_shown_ = false;
  const Clock& clock_;
  std::chrono::steady_clock::time_point begin_ = clock_.steady_now();
  std::chrono::steady_clock::time_point drawn_;  // Last.
};

}  // namespace cairn::cli
