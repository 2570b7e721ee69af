// SPDX-License-Identifier: Apache-2.0
// The input is the type.txt and the message.binpb of the proto handler. An Error, or a message that comes
// back from its own bytes. The types are of protobuf itself: one is a map that nests, the other has required
// fields.
#include <string>

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/stubs/logging.h>

#include "fuzz/fuzzing.hpp"
#include "proto/wire.hpp"

namespace {

using cairn::Errc;
using cairn::fuzz::attempt;
using cairn::fuzz::require;

template <class Message>
void read(const std::string& bytes) {
  Message message;
  const auto is_read = [&] {
    // A field of two bytes can begin a message of a few hundred. And protobuf makes room for a string before it
    // looks for its bytes, for 50,000,000 of them at most; that room is not touched, and parsing ends there.
    const cairn::fuzz::MemoryBound bound(51'000'000 + 512 * bytes.size());
    return attempt({Errc::malformed_metadata}, [&] {
      cairn::detail::parse_message(bytes, message, "input");
      return true;
    });
  }();
  if (is_read) {
    Message again;
    cairn::detail::parse_message(message.SerializeAsString(), again, "written");
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
