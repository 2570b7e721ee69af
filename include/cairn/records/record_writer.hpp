// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cairn/records/record_options.hpp"

namespace cairn::io {
class Syscalls;
}  // namespace cairn::io

namespace cairn::records {

/// Writes a riegeli/records file, or appends one to a string; simple chunks only.
///
/// A file is written under a temporary name beside its own, `.<name>-<digits>.tmp`, and takes its own name, and the
/// place of what has it, with `finish`. A writer that is destroyed before removes what it has written; what a crash
/// leaves the next writer of that name removes. A string holds anything after an error, or without `finish`. A record
/// that is larger than a chunk is hashed and packed from where it lies, and never copied as a whole. The writer holds
/// at most one chunk, packed and unpacked, and 16 MiB for the file.
///
/// Threads: one at a time.
/// Errors:  Errc::invalid_argument for options that the codec does not have; Errc::feature_missing for a codec that is
///          not built in; OS errors pass through. After an error nothing but the destruction of the writer works:
///          Errc::io_failure.
/// Source:  docs/format.md, "Records files".
class RecordWriter {
 public:
  /// Durable and under its name when `finish` has returned. The directory must be there.
  explicit RecordWriter(const std::filesystem::path& path, RecordOptions options = {});
  /// Writes to the end of a string. Positions count from there.
  ///
  /// Ownership: the string must stay valid, and unchanged, as long as the writer.
  [[nodiscard]] static RecordWriter append_to(std::string& bytes, RecordOptions options = {});
  RecordWriter(RecordWriter&&) noexcept;
  RecordWriter& operator=(RecordWriter&&) noexcept;
  ~RecordWriter();

  /// Adds a record that lies in several places. Returns its position, with which RecordReader::seek finds it.
  ///
  /// Ownership: the bytes must stay valid until `write` has returned.
  std::uint64_t write(std::span<const std::span<const std::byte>> record);
  std::uint64_t write(std::string_view record);
  /// Writes what is left and ends the file.
  ///
  /// Errors: Errc::closed when it was called before. An error of the last sync, that of the directory, may leave the
  ///         new file under its name.
  void finish();

 private:
  struct State;
  explicit RecordWriter(std::unique_ptr<State> state);
  friend RecordWriter create_records(io::Syscalls& syscalls, const std::filesystem::path& path,
                                     const RecordOptions& options);
  friend std::function<std::uint64_t()> prepare_write(RecordWriter& writer, std::string_view record);

  std::unique_ptr<State> state_;
};

}  // namespace cairn::records
