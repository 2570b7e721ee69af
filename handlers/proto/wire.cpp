// SPDX-License-Identifier: Apache-2.0
#include "wire.hpp"

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include "cairn/base/error.hpp"

namespace cairn::detail {
namespace {

constexpr int kMostNesting =
    1000;  // Protobuf's parser recurses; its own limit of 100 is less than some models need.

}  // namespace

void parse_message(const std::string& bytes, google::protobuf::Message& message, std::string_view path) {
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(kMostNesting);
  if (!message.ParsePartialFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: the bytes are no {}", path, message.GetTypeName()));
  }
  if (!message.IsInitialized()) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: required fields of {} are missing: {}", path, message.GetTypeName(),
                            message.InitializationErrorString()));
  }
}

std::string parse_type_name(std::string text, std::string_view path) {
  constexpr std::size_t kLongestName = 4096;
  const std::size_t end = text.find('\n');
  if (end == 0 || end == std::string::npos || end + 1 != text.size() || text.size() > kLongestName) {
    throw Error(Errc::malformed_metadata, fmt::format("{}: not the name of one message type", path));
  }
  text.pop_back();
  return text;
}

}  // namespace cairn::detail
