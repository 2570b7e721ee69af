// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "cairn/core/save.hpp"
#include "cairn/observe/report.hpp"

#include "base/internal/mutex.hpp"
#include "core/operation_stats.hpp"
#include "io/internal/chunk_hash.hpp"
#include "store/internal/manifest.hpp"

namespace cairn::core {

/// Collects the result of a save, with the problems that did not keep it from its end.
///
/// Threads: every method may be called from any thread.
class SaveReport {
 public:
  /// Counts the files of all ranks.
  struct Totals {
    std::uint64_t files = 0;
    std::uint64_t bytes = 0;
  };

  explicit SaveReport(const OperationStats& stats) : stats_(stats) {}

  /// Adds a problem that does not harm the checkpoint; nothing for an empty text.
  void add_problem(const std::string& problem) noexcept;
  /// Adds to the count of a problem that is told once.
  void count_problem(const std::string& words, std::uint64_t count) noexcept;
  /// Adds what could not be removed of what was replaced; nothing for an empty text.
  void add_unremoved(const std::string& problem) noexcept;
  /// All of that; null when there is none.
  [[nodiscard]] std::exception_ptr unremoved() const;
  /// Adds to what a sharding policy has made.
  void add_policy(const std::string& description, const WorkFigures& figures) noexcept;

  void end_blocking_phase() noexcept;
  /// Fills in what is known before the checkpoint becomes visible.
  void prepare(const std::filesystem::path& path, std::span<const io::FileDigest> digests,
               std::span<const store::FileEntry> others);
  /// The checkpoint is durable: fills in what was measured.
  void measure() noexcept;
  void set_path(const std::filesystem::path& path);
  void set_totals(Totals totals) noexcept;
  [[nodiscard]] Totals totals() const noexcept;

  /// Returns what a committed save has done. Does not throw, because that would say that it has not
  /// committed; without memory for a copy the process ends.
  [[nodiscard]] SaveResult result() const noexcept;

 private:
  /// A problem of the result whose text ends with a count.
  struct CountedProblem {
    std::size_t place = 0;
    std::uint64_t count = 0;
  };

  const OperationStats& stats_;
  mutable Mutex mutex_;
  SaveResult result_ CAIRN_GUARDED_BY(mutex_);
  std::map<std::string, CountedProblem> counted_problems_ CAIRN_GUARDED_BY(mutex_);  // By their words.
  std::string unremoved_ CAIRN_GUARDED_BY(mutex_);  // In words; among the problems of the result, too.
};

}  // namespace cairn::core
