// SPDX-License-Identifier: Apache-2.0
// The input is a `.cpb` as it is or, with hashes that are right, its chunks and the record that says where they belong.
// An Error, or a message that is the same after it was written and read again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/stubs/logging.h>

#include "cairn/proto/auto_splitter.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/chunked_file.hpp"
#include "cairn/records/record_writer.hpp"

#include "fuzz/fuzzing.hpp"
#include "records/internal/signature.hpp"

namespace {

using cairn::Errc;
using cairn::fuzz::attempt;
using cairn::fuzz::require;
using cairn::proto::MergeOptions;
using google::protobuf::Struct;

/// Makes a file of chunks. Where the record behind them can be read their offsets, and some of their sizes, are right.
std::string file_of(cairn::fuzz::Input& input) {
  std::string file;
  auto writer = cairn::records::RecordWriter::append_to(file);
  const std::uint8_t mends = input.take<std::uint8_t>();
  std::vector<std::uint64_t> positions;
  std::vector<std::size_t> sizes;
  for (int left = input.take<std::uint8_t>() % 8; left > 0; --left) {
    const std::string_view bytes = input.take_text(input.take<std::uint8_t>());
    positions.push_back(writer.write(bytes));
    sizes.push_back(bytes.size());
  }
  cairn::chunked::ChunkMetadata metadata;
  std::string record(input.rest());
  if (mends != 0 && metadata.ParseFromString(record)) {
    for (int i = 0; i < metadata.chunks_size() && static_cast<std::size_t>(i) < positions.size(); ++i) {
      metadata.mutable_chunks(i)->set_offset(positions[static_cast<std::size_t>(i)]);
      if (mends % 2 == 1) {
        metadata.mutable_chunks(i)->set_size(sizes[static_cast<std::size_t>(i)]);
      }
    }
    record = metadata.SerializeAsString();
  }
  writer.write(record);
  writer.finish();
  return file;
}

void check_read(std::string_view file) {
  Struct message;
  MergeOptions options;
  options.threads = 1;
  options.most_bytes = 1 << 20;
  options.most_empty_elements = 100;
  const auto merged = attempt({Errc::malformed_metadata, Errc::checksum_mismatch, Errc::unsupported_version,
                               Errc::feature_missing, Errc::type_mismatch},
                              [&] { return cairn::proto::read_string(file, message, options); });
  if (!merged) {
    return;
  }
  cairn::proto::SplitOptions limit;
  limit.max_size = 100;
  cairn::proto::AutoSplitter splitter(message, limit);
  const auto written = attempt({Errc::invalid_argument}, [&] { return splitter.write_to_string(); });
  if (written && written->second) {  // Protobuf reads no whole message with texts that are not UTF-8.
    Struct again;
    const auto read = attempt({Errc::malformed_metadata},
                              [&] { return cairn::proto::read_string(written->first, again, options); });
    require(!read || again.ByteSizeLong() == message.ByteSizeLong(),
            "a message that is written and read is the same");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // It would print a line for each string that is no UTF-8.
  static auto* const silenced = google::protobuf::SetLogHandler(nullptr);
  static_cast<void>(silenced);
  // Protobuf makes room for a string before it looks for its bytes, for 50,000,000 of them at most.
  const cairn::fuzz::MemoryBound bound(60'000'000 + 4096 * size);
  cairn::fuzz::Input input(data, size);
  if (input.rest().starts_with(cairn::records::kFileBegin)) {
    check_read(input.rest());
  } else {
    check_read(file_of(input));
  }
  return 0;
}
