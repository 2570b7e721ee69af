// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace cairn::bench {

/// What the machine can do without the library, in seconds for `bytes` unless named otherwise.
struct Ceilings {
  Ceilings() = default;

  double memcpy1_s = 0;        ///< One thread, into memory that was touched before.
  double memcpy2_s = 0;        ///< Two threads.
  double memcpy2_fresh_s = 0;  ///< Two threads, into fresh memory of small pages.
  double write_s = 0;          ///< O_DIRECT through io_uring, preallocated, synced at the end.
  double read_s = 0;           ///< O_DIRECT through io_uring, with a cold cache.
  double touch2_s = 0;         ///< Two threads make fresh huge pages present.
  double read_fresh_s = 0;     ///< As read_s, into fresh huge pages.
  double read_buffered_s = 0;  ///< Through the page cache, cold.
  double xxh3_gbs = 0;
  double fsync_s = 0;  ///< One that has nothing to write; the median of five.
  std::uint64_t bytes = 0;
};

/// Copies with so many threads, each a part of its own; returns the seconds.
double copy_with(std::size_t threads, std::byte* to, const std::byte* from, std::size_t bytes);

/// Writes a new file as Ceilings::write_s has it; returns the seconds. `source` is page-aligned.
double write_durably(const std::filesystem::path& file, const std::byte* source, std::uint64_t bytes);

/// Measures them below `directory`. `source` holds `bytes` of incompressible data, page-aligned.
Ceilings measure_ceilings(const std::filesystem::path& directory, const std::byte* source,
                          std::uint64_t bytes);

}  // namespace cairn::bench
