// SPDX-License-Identifier: Apache-2.0
#include "wire.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>

#include "cairn/base/error.hpp"

namespace cairn::detail {
namespace {

constexpr int kMostNesting =
    1000;  // Protobuf's parser recurses; its own limit of 100 is less than some models need.

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;

/// Returns whether messages of a type can hold others of the same type, so that nothing but their contents
/// bounds their depth.
bool can_nest(const Descriptor* type, std::set<const Descriptor*>& open, std::set<const Descriptor*>& done) {
  if (open.contains(type)) {
    return true;
  }
  if (!done.insert(type).second) {
    return false;
  }
  open.insert(type);
  for (int i = 0; i < type->field_count(); ++i) {
    const Descriptor* child = type->field(i)->message_type();
    if (child != nullptr && can_nest(child, open, done)) {
      return true;
    }
  }
  open.erase(type);
  return false;
}

enum : std::uint32_t { kVarint, kFixed64, kLengthDelimited, kGroup, kEndOfGroup, kFixed32 };

/// The depth of what is left of `stream`, or of the group that it is in; looks no deeper than `most`.
/// `type` is null where the fields are not known.
int depth_of(CodedInputStream& stream, const Descriptor* type, int most) {
  int deepest = 0;
  while (const std::uint32_t tag = stream.ReadTag()) {
    const FieldDescriptor* field =
        type != nullptr ? type->FindFieldByNumber(static_cast<int>(tag >> 3)) : nullptr;
    const Descriptor* child = field != nullptr ? field->message_type() : nullptr;
    std::uint32_t size = 0;
    std::uint64_t number = 0;
    switch (tag & 7) {
      case kVarint:
        stream.ReadVarint64(&number);
        break;
      case kFixed64:
        stream.Skip(8);
        break;
      case kLengthDelimited:
        stream.ReadVarint32(&size);
        if (child == nullptr || most == 0) {
          deepest = std::max(deepest, child == nullptr ? 0 : 1);
          stream.Skip(static_cast<int>(size));
        } else {
          const auto limit = stream.PushLimit(static_cast<int>(size));
          deepest = std::max(deepest, 1 + depth_of(stream, child, most - 1));
          stream.PopLimit(limit);
        }
        break;
      case kGroup:
        if (most == 0) {
          return 1;  // Deep enough for its reader to give up; where it ends does not matter.
        }
        deepest = std::max(deepest, 1 + depth_of(stream, child, most - 1));
        break;
      case kEndOfGroup:
        return deepest;
      default:
        stream.Skip(4);
        break;
    }
    if (deepest > most) {
      return deepest;
    }
  }
  return deepest;
}

}  // namespace

void check_nesting(const std::string& bytes, const google::protobuf::Message& message,
                   std::string_view name) {
  std::set<const Descriptor*> open;
  std::set<const Descriptor*> done;
  if (!can_nest(message.GetDescriptor(), open, done)) {
    return;
  }
  CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                          static_cast<int>(bytes.size()));
  if (depth_of(stream, message.GetDescriptor(), kMostNesting) > kMostNesting) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}': the message is deeper than {} levels, and could not "
                            "be loaded again",
                            name, kMostNesting));
  }
}

void parse_message(const std::string& bytes, google::protobuf::Message& message, std::string_view path) {
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(kMostNesting);
  if (!message.ParsePartialFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: the bytes are not a {}", path, message.GetTypeName()));
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
