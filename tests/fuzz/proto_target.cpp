// SPDX-License-Identifier: Apache-2.0
// The input is the type.txt and the message.binpb of the proto handler. An Error, or a message that comes
// back from its own bytes. The types are of protobuf itself: one is a map that nests, the other has required
// fields.
#include <span>
#include <string>

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/stubs/logging.h>

#include "cairn/proto/merger.hpp"

#include "fuzz/fuzzing.hpp"
#include "proto/message_load.hpp"

namespace {

using cairn::Errc;
using cairn::fuzz::attempt;
using cairn::fuzz::require;

/// Reads a message that is all of its file, as the handler does.
template <class Message>
void parse_message(const std::string& bytes, Message& message) {
  cairn::proto::Merger merger(*cairn::detail::one_chunk(bytes.size(), "input"), message);
  merger.add(0, std::as_bytes(std::span(bytes)));
  static_cast<void>(merger.finish());
}

template <class Message>
void read(const std::string& bytes) {
  Message message;
  const auto is_read = [&] {
    // A field of two bytes can begin a message of a few hundred. And protobuf makes room for a string before it
    // looks for its bytes, for 50,000,000 of them at most; that room is not touched, and parsing ends there.
    const cairn::fuzz::MemoryBound bound(51'010'000 + 512 * bytes.size());
    return attempt({Errc::malformed_metadata}, [&] {
      parse_message(bytes, message);
      return true;
    });
  }();
  if (is_read) {
    Message again;
    parse_message(message.SerializeAsString(), again);
    require(again.ByteSizeLong() == message.ByteSizeLong(), "a message comes back from its own bytes");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // It would print a line for each string that is no UTF-8.
  static auto* const silenced = google::protobuf::SetLogHandler(nullptr);
  static_cast<void>(silenced);
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto type =
      attempt({Errc::malformed_metadata}, [&] { return cairn::detail::parse_type_name(bytes, "input"); });
  if (type) {
    require(!type->empty() && type->find('\n') == std::string::npos && *type + '\n' == bytes,
            "a type is one line");
  }
  read<google::protobuf::Struct>(bytes);
  read<google::protobuf::FileDescriptorProto>(bytes);
  return 0;
}
