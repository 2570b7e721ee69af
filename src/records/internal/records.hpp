// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cairn/records/record_reader.hpp"
#include "cairn/records/record_writer.hpp"

#include "io/internal/syscalls.hpp"

namespace cairn::records {

/// The reader and the writer of a file with system calls of one's own.
[[nodiscard]] RecordReader open_records(io::Syscalls& syscalls, const std::filesystem::path& path,
                                        ReaderOptions options = {});
[[nodiscard]] RecordWriter create_records(io::Syscalls& syscalls, const std::filesystem::path& path,
                                          const RecordOptions& options = {});

/// Returns another reader of the same file, which is open already, or of the same bytes; it stands at the first record.
[[nodiscard]] RecordReader another_reader(const RecordReader& reader, ReaderOptions options);

}  // namespace cairn::records
