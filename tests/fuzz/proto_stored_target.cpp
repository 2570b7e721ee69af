// SPDX-License-Identifier: Apache-2.0
// The input is the chunks.binpb of a message in chunks, behind its size, and the message.chunks. An Error, or a message
// that is the same after it was cut and merged again. Pages are given in one piece, or in two.
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/stubs/logging.h>

#include "cairn/proto/auto_splitter.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/merger.hpp"

#include "fuzz/fuzzing.hpp"
#include "proto/message_load.hpp"

namespace {

using cairn::DestinationPiece;
using cairn::Errc;
using cairn::detail::MessageLoad;
using cairn::fuzz::attempt;
using cairn::fuzz::require;

void fill(const DestinationPiece& piece, std::span<const std::byte> file, bool in_parts) {
  const auto bytes = file.subspan(piece.offset_bytes, piece.size_bytes);
  if (piece.data != nullptr) {
    std::copy(bytes.begin(), bytes.end(), piece.data);
  } else if (in_parts && bytes.size() > 1) {
    piece.sink->write(bytes.size() / 2, bytes.subspan(bytes.size() / 2));
    piece.sink->write(0, bytes.first(bytes.size() / 2));
  } else {
    piece.sink->write(0, bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // It would print a line for each string that is no UTF-8.
  static auto* const silenced = google::protobuf::SetLogHandler(nullptr);
  static_cast<void>(silenced);
  cairn::fuzz::Input input(data, size);
  // Protobuf makes room for a string before it looks for its bytes, for 50,000,000 of them at most.
  const cairn::fuzz::MemoryBound bound(51'000'000 + 1024 * size);
  const bool in_parts = input.take<std::uint8_t>() % 2 == 1;
  const std::string metadata(input.take_text(input.take<std::uint16_t>()));
  const std::string chunks(input.rest());
  const auto stored = attempt({Errc::malformed_metadata}, [&] {
    return cairn::detail::parse_chunks(metadata, chunks.size(), "chunks.binpb");
  });
  if (!stored) {
    return 0;
  }
  auto message = std::make_shared<google::protobuf::Struct>();
  const auto loaded = attempt({Errc::malformed_metadata, Errc::unsupported_version}, [&] {
    const auto load = std::make_shared<MessageLoad>(*stored, "message.chunks", message, cairn::proto::Path());
    load->make_room();
    for (const DestinationPiece& piece : load->pieces()) {
      if (piece.size_bytes > 0) {
        fill(piece, std::as_bytes(std::span(chunks)), in_parts);
      }
    }
    static_cast<void>(load->finish());
    return true;
  });
  if (loaded) {
    // Not from its own bytes: protobuf reads no texts that are not UTF-8, which chunks may hold.
    cairn::proto::AutoSplitter splitter(*message);
    const auto split = attempt({Errc::invalid_argument}, [&] { return splitter.split(); });
    google::protobuf::Struct again;
    if (split) {
      cairn::proto::merge(split->chunks, split->chunked_message, again);
      require(again.ByteSizeLong() == message->ByteSizeLong(),
              "a message that is cut and merged is the same");
    }
  }
  return 0;
}
