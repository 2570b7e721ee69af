// SPDX-License-Identifier: Apache-2.0
#include "records/records_file.hpp"

#include <algorithm>

#include "cairn/records/record_writer.hpp"

namespace cairn::records {

ReadRecords read_all(RecordReader& reader) {
  ReadRecords all;
  for (std::string record; reader.next(record);) {
    all.records.push_back(record);
    all.positions.push_back(reader.position());
  }
  return all;
}

ReadRecords read_all(std::string_view file) {
  RecordReader reader(bytes_of(file));
  return read_all(reader);
}

WrittenRecords write_all(const std::vector<std::string>& records, std::string_view options) {
  WrittenRecords written;
  RecordWriter writer = RecordWriter::append_to(written.file, RecordOptions::parse(options));
  for (const std::string& record : records) {
    written.positions.push_back(writer.write(record));
  }
  writer.finish();
  return written;
}

HandMadeFile::HandMadeFile() : bytes_(signature()) {}

HandMadeFile& HandMadeFile::add(ChunkHeader header, std::string_view data) {
  header.data_bytes = data.size();
  if (header.data_hash == 0) {
    header.data_hash = hash(bytes_of(data));
  }
  const std::uint64_t begin = bytes_.size();
  const std::uint64_t end = chunk_end(begin, header).value();
  put(encode(header), begin, end);
  put(data, begin, end);
  while (bytes_.size() < end) {
    put(std::string_view("\0", 1), begin, end);
  }
  return *this;
}

void HandMadeFile::put(std::string_view bytes, std::uint64_t begin, std::uint64_t end) {
  for (const char byte : bytes) {
    if (bytes_.size() % kBlockBytes == 0) {
      bytes_ += encode(BlockHeader{bytes_.size() - begin, end - bytes_.size()});
    }
    bytes_ += byte;
  }
}

ChunkHeader simple_header(std::uint64_t records, std::uint64_t decoded_bytes) {
  ChunkHeader header;
  header.type = chunk_type::kSimple;
  header.records = records;
  header.decoded_bytes = decoded_bytes;
  return header;
}

}  // namespace cairn::records
