// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/records/record_reader.hpp"
#include "cairn/records/record_writer.hpp"

#include "io/internal/file.hpp"
#include "io/internal/syscalls.hpp"

namespace cairn::records {

/// The reader and the writer of a file with system calls of one's own.
[[nodiscard]] RecordReader open_records(io::Syscalls& syscalls, const std::filesystem::path& path,
                                        ReaderOptions options = {});
[[nodiscard]] RecordWriter create_records(io::Syscalls& syscalls, const std::filesystem::path& path,
                                          const RecordOptions& options = {});

/// Hashes and packs a record that has a chunk of its own, and returns what does the rest of RecordWriter::write.
///
/// Ownership: the record must stay valid until that has returned, and the writer must not be moved.
/// Threads:   any number may prepare records, also while one writes. A record of more than 64 MiB is packed when it is
///            written: only then is there memory for it.
[[nodiscard]] std::function<std::uint64_t()> prepare_write(RecordWriter& writer, std::string_view record);

/// Returns another reader of the same file, which is open already, or of the same bytes; it stands at the first record.
[[nodiscard]] RecordReader another_reader(const RecordReader& reader, ReaderOptions options);

/// The last record of a file, which says what the others are.
struct LastRecord {
  std::string bytes;
  std::uint64_t position = 0;
};

/// Reads it; nothing where the file has no records. It may have 16 times as many bytes as the file, 1 MiB in any case,
/// and never more than 256 MiB: what is parsed takes several times as much memory.
///
/// Errors: Errc::malformed_metadata when it has more.
[[nodiscard]] std::optional<LastRecord> read_last(const RecordReader& file);

struct RegularFile {
  io::FileHandle handle;
  std::uint64_t size_bytes = 0;
};

/// Opens a regular file, behind symbolic links, too. Returns nothing when there is none.
///
/// Errors: Errc::malformed_metadata when something else is there; OS errors.
[[nodiscard]] std::optional<RegularFile> open_regular(io::Syscalls& syscalls,
                                                      const std::filesystem::path& path);

}  // namespace cairn::records
