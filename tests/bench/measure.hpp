// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

namespace cairn::bench {

/// Seconds of a monotonic clock since it was made.
class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// What an operation cost since it was made: processor time of the process and of the machine, peak memory.
class Usage {
 public:
  Usage();

  [[nodiscard]] double process_seconds() const;
  [[nodiscard]] double machine_seconds() const;
  /// Peak resident memory since then, where the kernel lets it be reset; since the program's start elsewhere.
  [[nodiscard]] double peak_rss_mb() const;

 private:
  double process_begin_;
  double machine_begin_;
};

/// Waits until everything below `directory`'s file system is on the disk.
void sync_file_system(const std::filesystem::path& directory);

/// Empties the page cache, where the program may; returns whether it could. What is not on the disk yet stays in it, so
/// the file system of `directory` is synced first.
bool drop_page_cache(const std::filesystem::path& directory);

struct DiskUse {
  std::uint64_t files = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t disk_bytes = 0;
};

DiskUse disk_use(const std::filesystem::path& directory);

}  // namespace cairn::bench
