// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "verdicts/harness_clock.hpp"

namespace cairn::verdicts {

/// What happened in one program, and which promises were broken in it.
///
/// Threads: every method may be called from any thread.
class Journal {
 public:
  Journal(std::uint64_t seed, std::shared_ptr<const HarnessClock> clock)
      : seed_(seed), clock_(std::move(clock)) {}

  /// What is done now, with the time.
  void note(const std::string& line);
  /// A promise that was broken: `kind` is a word or two to count by.
  void lie(const std::string& kind, const std::string& what);
  /// Counts something for the figures ("saves", "cancelled").
  void count(const std::string& what);

  [[nodiscard]] std::map<std::string, std::uint64_t> counts() const;
  [[nodiscard]] std::map<std::string, std::uint64_t> lies() const;
  /// The lies in words, the program's seed and its last lines.
  [[nodiscard]] std::string describe() const;

 private:
  static constexpr std::size_t kMostLines = 1000;
  static constexpr std::size_t kMostLies = 20;

  [[nodiscard]] std::string stamped(const std::string& line) const;

  const std::uint64_t seed_;
  const std::shared_ptr<const HarnessClock> clock_;
  mutable std::mutex mutex_;  // Protects all below.
  std::deque<std::string> lines_;
  std::vector<std::string> lies_;
  std::map<std::string, std::uint64_t> kinds_;
  std::map<std::string, std::uint64_t> counts_;
};

}  // namespace cairn::verdicts
