// SPDX-License-Identifier: Apache-2.0
// The input is a file of records: as it is, with hashes that are right, and as the data of one chunk of a file that is
// right. An Error, or records that are found by their positions, and that come back when they are written.
#include <string>
#include <vector>

#include "cairn/records/record_options.hpp"
#include "cairn/records/record_reader.hpp"
#include "cairn/records/record_writer.hpp"

#include "base/internal/packed.hpp"
#include "fuzz/fuzzing.hpp"
#include "records/layout.hpp"

namespace {

using cairn::Errc;
using cairn::fuzz::as_bytes;
using cairn::fuzz::require;
using cairn::records::chunk_end;
using cairn::records::ChunkHeader;
using cairn::records::decode_chunk_header;
using cairn::records::encode;
using cairn::records::hash;
using cairn::records::is_built_in;
using cairn::records::kBlockBytes;
using cairn::records::kChunkHeaderBytes;
using cairn::records::kSignatureBytes;
using cairn::records::ReaderOptions;
using cairn::records::RecordOptions;
using cairn::records::RecordReader;
using cairn::records::RecordWriter;
using cairn::records::signature;

constexpr std::uint64_t kMostRecordBytes = std::uint64_t{1} << 20;

struct Record {
  std::string bytes;
  std::uint64_t position = 0;
};

/// The header with the hash that it should have.
std::string mended_header(std::string_view header) {
  std::string right;
  cairn::put(right, hash(as_bytes(header).subspan(8)));
  return right.append(header.substr(8));
}

/// Mends the hashes of a file that lies within one block.
std::string mended(std::string file) {
  if (file.size() < kSignatureBytes) {
    return file;
  }
  file.replace(0, kSignatureBytes, signature());
  for (std::uint64_t begin = kSignatureBytes;
       begin + kChunkHeaderBytes <= file.size() && begin < kBlockBytes;) {
    ChunkHeader header = *decode_chunk_header(mended_header(file.substr(begin, kChunkHeaderBytes)));
    const auto end = chunk_end(begin, header);
    const std::uint64_t data = begin + kChunkHeaderBytes;
    if (end && *end <= file.size() && *end <= kBlockBytes && header.data_bytes <= file.size() - data) {
      header.data_hash = hash(as_bytes(file).subspan(data, header.data_bytes));
    }
    file.replace(begin, kChunkHeaderBytes, encode(header));
    if (!end || *end <= begin) {
      break;
    }
    begin = *end;
  }
  return file;
}

/// A file of the signature and a chunk with this data.
std::string around(std::string_view data) {
  if (data.size() < 3) {
    return {};
  }
  ChunkHeader header;
  header.type = cairn::records::chunk_type::kSimple;
  header.records = static_cast<unsigned char>(data[0]);
  header.decoded_bytes =
      static_cast<unsigned char>(data[1]) * std::uint64_t{static_cast<unsigned char>(data[2])};
  data.remove_prefix(3);
  header.data_bytes = data.size();
  header.data_hash = hash(as_bytes(data));
  const auto end = chunk_end(kSignatureBytes, header);
  std::string file(*end < kBlockBytes ? *end : 0, '\0');
  if (!file.empty()) {
    file.replace(0, kSignatureBytes, signature());
    file.replace(kSignatureBytes, kChunkHeaderBytes, encode(header));
    file.replace(kSignatureBytes + kChunkHeaderBytes, data.size(), data);
  }
  return file;
}

void check_positions(std::string_view file, const std::vector<Record>& records, ReaderOptions options) {
  RecordReader reader(as_bytes(file), options);
  std::string_view there;
  for (std::size_t i = records.size(); i > 0; i -= (i + 15) / 16) {
    reader.seek(records[i - 1].position);
    require(reader.next(there) && there == records[i - 1].bytes, "a record is found by its position");
  }
  require(reader.seek_to_last() == !records.empty(), "a file with records has a last one");
  if (!records.empty()) {
    require(reader.next(there) && there == records.back().bytes, "the last record is that of the file");
  }
}

void check_written_anew(const std::vector<Record>& records) {
  std::string file;
  RecordOptions options;
  options.chunk_bytes = 100;
  RecordWriter writer = RecordWriter::append_to(file, options);
  for (const Record& record : records) {
    writer.write(record.bytes);
  }
  writer.finish();
  RecordReader reader(as_bytes(file));
  std::string there;
  for (const Record& record : records) {
    require(reader.next(there) && there == record.bytes, "records come back");
  }
  require(!reader.next(there), "no other record comes back");
}

void read(std::string_view file) {
  ReaderOptions options;
  options.most_record_bytes = kMostRecordBytes;
  std::vector<Record> records;
  const auto is_read = [&] {
    // Unpacked bytes, which are moved as it grows; and the memory of records, which this target keeps.
    const cairn::fuzz::MemoryBound bound((std::size_t{8} << 20) + 1024 * file.size());
    return cairn::fuzz::attempt(
        {Errc::malformed_metadata, Errc::checksum_mismatch, Errc::feature_missing, Errc::unsupported_version},
        [&] {
          RecordReader reader(as_bytes(file), options);
          std::uint64_t bytes = 0;
          for (std::string record; bytes <= 2 * kMostRecordBytes && reader.next(record);) {
            bytes += record.size();
            require(records.empty() || reader.position() > records.back().position, "positions rise");
            records.push_back({record, reader.position()});
          }
          return bytes <= 2 * kMostRecordBytes;
        });
  }();
  if (is_read == true) {
    check_positions(file, records, options);
    check_written_anew(records);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string file(reinterpret_cast<const char*>(data), size);
  read(file);
  read(mended(file));
  read(around(file));
  const auto options = cairn::fuzz::attempt({Errc::invalid_argument, Errc::feature_missing},
                                            [&] { return RecordOptions::parse(file); });
  require(!options || is_built_in(options->codec), "options name a codec that is there");
  return 0;
}
