// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/records/record_reader.hpp"

#include "records/layout.hpp"

namespace cairn::records {

/// Returns what a reader gives, from where it stands to the end.
struct ReadRecords {
  std::vector<std::string> records;
  std::vector<std::uint64_t> positions;
};

ReadRecords read_all(RecordReader& reader);
ReadRecords read_all(std::string_view file);

/// A file with these records, and the positions that the writer gave.
struct WrittenRecords {
  std::string file;
  std::vector<std::uint64_t> positions;
};

WrittenRecords write_all(const std::vector<std::string>& records, std::string_view options);

/// A file of the signature and chunks put together by hand: all hashes are right, whatever the rest says.
class HandMadeFile {
 public:
  HandMadeFile();

  /// `data_hash` is set when the header has none.
  HandMadeFile& add(ChunkHeader header, std::string_view data);
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void put(std::string_view bytes, std::uint64_t begin, std::uint64_t end);

  std::string bytes_;
};

/// A simple chunk's header of so many records and bytes.
ChunkHeader simple_header(std::uint64_t records, std::uint64_t decoded_bytes);

}  // namespace cairn::records
