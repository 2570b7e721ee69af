// SPDX-License-Identifier: Apache-2.0
#include "proto/nesting.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/unknown_field_set.h>

#include "proto/fields.hpp"
#include "proto/scalars.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

bool groups_nest_at_most(int most, const UnknownFieldSet& fields) {
  for (int i = 0; i < fields.field_count(); ++i) {
    if (fields.field(i).type() == UnknownField::TYPE_GROUP &&
        (most == 0 || !groups_nest_at_most(most - 1, fields.field(i).group()))) {
      return false;
    }
  }
  return true;
}

bool field_nests_at_most(int most, const Message& message, std::uint64_t bytes,
                         const FieldDescriptor& field) {
  if (field.message_type() == nullptr) {
    return true;
  }
  if (field.is_map()) {
    if (field.message_type()->map_value()->message_type() == nullptr) {
      return most > 0;
    }
    const FieldDescriptor& value = *field.message_type()->map_value();
    for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
      const Message& there = message_of(message_of(message, field, i), value, {});
      if (!nests_at_most(most - 2, there, there.ByteSizeLong())) {  // An entry is a level, its value another.
        return false;
      }
    }
    return true;
  }
  const auto fits = [most, bytes](const Message& child) {
    return nests_at_most(most - 1, child, bytes_below(bytes, child));
  };
  if (!field.is_repeated()) {
    return fits(message_of(message, field, {}));
  }
  const auto& children = messages_of(message, field);
  return std::all_of(children.begin(), children.end(), fits);
}

}  // namespace

bool parse(std::string_view bytes, Message& out, int most_nesting) {
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    return false;
  }
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(most_nesting);
  return out.MergePartialFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

bool nests_at_most(int most, const Message& message, std::uint64_t bytes) {
  if (most < 0) {
    return false;
  }
  // A level takes two bytes at least, a tag and a length or both tags of a group: small messages are not looked at.
  if (bytes / 2 <= static_cast<std::uint64_t>(most)) {
    return true;
  }
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (!field_nests_at_most(most, message, bytes, *field)) {
      return false;
    }
  }
  return groups_nest_at_most(most, message.GetReflection()->GetUnknownFields(message));
}

}  // namespace cairn::proto
