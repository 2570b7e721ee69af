// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cairn/records/record_options.hpp"

namespace cairn::io {
class Syscalls;
}  // namespace cairn::io

namespace cairn::records {

struct ReaderOptions {
  ReaderOptions() = default;

  /// Most bytes of one record, and of what one chunk is unpacked to; 0: half of the memory that this process may have.
  /// A file that claims more is refused. Programs that read files of strangers set it to what they have memory for: a
  /// few bytes can unpack to very many.
  std::uint64_t most_record_bytes = 0;
};

/// One chunk of a file, as its header describes it; for tools.
struct ChunkDescription {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  ///< Where the next chunk begins.
  /// 's' signature, 'm' metadata, 'p' padding, 'r' records, 't' transposed records, which are not read.
  char type = 0;
  std::uint64_t data_bytes = 0;  ///< In the file, without headers.
  std::uint64_t records = 0;
  std::uint64_t decoded_bytes = 0;  ///< Of all its records.
  std::optional<Codec> codec;       ///< Nothing: its data is not packed by one that is known.
};

/// Reads the records of a riegeli/records file, in order or from any position.
///
/// Every hash that is passed is verified. A record that has a chunk of its own is read, or unpacked, straight into the
/// caller's string; others are unpacked with their chunk, once, and copied out of it. No memory is taken because of
/// what a file claims, but for what it has the bytes for; codecs may take up to 128 MiB to look back, as their data
/// says. After an error the reader stands where it stood, and `record` holds anything.
///
/// Threads: one at a time; several readers may read one file.
/// Errors:  Errc::malformed_metadata, Errc::checksum_mismatch; Errc::feature_missing for transposed chunks and codecs
///          that are not built in; Errc::unsupported_version for kinds of chunks and codecs that are not known. All
///          name the file, and the position of the chunk. OS errors pass through.
/// Source:  docs/format.md, "Records files".
class RecordReader {
 public:
  /// Opens a file, behind symbolic links, too, and reads its signature.
  ///
  /// Errors: Errc::not_found as well.
  explicit RecordReader(const std::filesystem::path& path, ReaderOptions options = {});
  /// Ownership: the bytes must stay valid as long as the reader.
  explicit RecordReader(std::span<const std::byte> bytes, ReaderOptions options = {});
  RecordReader(RecordReader&&) noexcept;
  RecordReader& operator=(RecordReader&&) noexcept;
  ~RecordReader();

  /// Reads the next record. Returns false at the end of the file.
  [[nodiscard]] bool next(std::string& record);
  /// The same without a copy: `record` is valid until the next call, or until the reader is moved or destroyed.
  [[nodiscard]] bool next(std::string_view& record);
  /// Returns the position of the record that `next` gave last: where its chunk begins, plus its number there.
  [[nodiscard]] std::uint64_t position() const noexcept;

  /// `next` gives the record at `position`, or the first one behind it. Within the chunk that was read last nothing is
  /// read or unpacked again.
  ///
  /// Errors: Errc::malformed_metadata as well when the file ends before `position`.
  void seek(std::uint64_t position);
  /// `next` gives the last record. Returns false, and changes nothing, when the file has none.
  [[nodiscard]] bool seek_to_last();

  [[nodiscard]] std::uint64_t file_bytes() const noexcept;
  /// Describes the next chunk, and passes over it without reading its data: after `next`, the chunk behind the
  /// record's; after `seek`, the one that holds the position. Returns nothing at the end. The signature is passed over
  /// already.
  [[nodiscard]] std::optional<ChunkDescription> next_chunk();

 private:
  struct State;
  explicit RecordReader(std::unique_ptr<State> state);
  friend RecordReader open_records(io::Syscalls& syscalls, const std::filesystem::path& path,
                                   ReaderOptions options);
  friend RecordReader another_reader(const RecordReader& reader, ReaderOptions options);

  std::unique_ptr<State> state_;
};

}  // namespace cairn::records
