// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "cairn/proto/splitter.hpp"

#include "io/internal/syscalls.hpp"

// Chunks as records. Errors of all: Errc::feature_missing where this library was built without records.

namespace cairn::proto {

/// A file of records that is open.
///
/// Threads: one at a time.
class ChunkRecords {
 public:
  virtual ~ChunkRecords() = default;

  /// Another reader of the same file, whatever has its name by now.
  [[nodiscard]] virtual std::unique_ptr<ChunkRecords> another(std::uint64_t most_record_bytes) const = 0;
  /// Reads the last record. Returns false when there is none.
  [[nodiscard]] virtual bool read_last(std::string& record) = 0;
  /// Reads the record at a position. The view is valid until the next call.
  [[nodiscard]] virtual std::string_view read(std::uint64_t position) = 0;
  virtual void read(std::uint64_t position, std::string& record) = 0;
};

/// Opens the file at a path; null when there is none.
[[nodiscard]] std::unique_ptr<ChunkRecords> open_records(io::Syscalls& syscalls,
                                                         const std::filesystem::path& path,
                                                         std::uint64_t most_record_bytes);
[[nodiscard]] std::unique_ptr<ChunkRecords> open_records(std::string_view bytes,
                                                         std::uint64_t most_record_bytes);

/// Writes the chunks, and behind them what says where they belong, to a new file or to the end of a string.
void write_records(io::Syscalls& syscalls, const std::filesystem::path& path, const SplitResult& split,
                   const WriteOptions& options);
void write_records(std::string& bytes, const SplitResult& split, const WriteOptions& options);

}  // namespace cairn::proto
