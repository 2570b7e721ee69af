// SPDX-License-Identifier: Apache-2.0
#include "proto/fields.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/wire_format.h>

namespace cairn::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::MapKey;
using google::protobuf::MapValueConstRef;
using google::protobuf::MapValueRef;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::UnknownField;
using google::protobuf::internal::WireFormat;

/// Bytes of a number of a type. `bits` are its 64 bits, with the sign extended.
std::uint64_t number_bytes(FieldDescriptor::Type type, std::uint64_t bits) {
  switch (type) {
    case FieldDescriptor::TYPE_DOUBLE:
    case FieldDescriptor::TYPE_FIXED64:
    case FieldDescriptor::TYPE_SFIXED64:
      return 8;
    case FieldDescriptor::TYPE_FLOAT:
    case FieldDescriptor::TYPE_FIXED32:
    case FieldDescriptor::TYPE_SFIXED32:
      return 4;
    case FieldDescriptor::TYPE_BOOL:
      return 1;
    case FieldDescriptor::TYPE_SINT32:
    case FieldDescriptor::TYPE_SINT64:
      return varint_bytes((bits << 1) ^
                          (0 - (bits >> 63)));  // Zigzag: the same for 32 bits whose sign is extended.
    default:
      return varint_bytes(bits);
  }
}

std::uint64_t bits_of(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

bool has_fixed_bytes(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL || field.type() == FieldDescriptor::TYPE_FIXED32 ||
         field.type() == FieldDescriptor::TYPE_FIXED64 || field.type() == FieldDescriptor::TYPE_SFIXED32 ||
         field.type() == FieldDescriptor::TYPE_SFIXED64;
}

/// The bits of a number that is written as a varint.
std::uint64_t bits_of(const Message& message, const FieldDescriptor& field, Element element) {
  const Reflection& get = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return bits_of(element ? get.GetRepeatedInt32(message, &field, *element)
                             : get.GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return bits_of(element ? get.GetRepeatedInt64(message, &field, *element)
                             : get.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_UINT32:
      return element ? get.GetRepeatedUInt32(message, &field, *element) : get.GetUInt32(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return element ? get.GetRepeatedUInt64(message, &field, *element) : get.GetUInt64(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return bits_of(element ? get.GetRepeatedEnumValue(message, &field, *element)
                             : get.GetEnumValue(message, &field));
    default:
      return 0;
  }
}

std::uint64_t bits_of(const MapValueConstRef& value, const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return bits_of(value.GetInt32Value());
    case FieldDescriptor::CPPTYPE_INT64:
      return bits_of(value.GetInt64Value());
    case FieldDescriptor::CPPTYPE_UINT32:
      return value.GetUInt32Value();
    case FieldDescriptor::CPPTYPE_UINT64:
      return value.GetUInt64Value();
    case FieldDescriptor::CPPTYPE_ENUM:
      return bits_of(value.GetEnumValue());
    default:
      return 0;
  }
}

std::uint64_t bits_of(const MapKey& key) {
  switch (key.type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return bits_of(key.GetInt32Value());
    case FieldDescriptor::CPPTYPE_INT64:
      return bits_of(key.GetInt64Value());
    case FieldDescriptor::CPPTYPE_UINT32:
      return key.GetUInt32Value();
    case FieldDescriptor::CPPTYPE_UINT64:
      return key.GetUInt64Value();
    default:
      return 0;
  }
}

}  // namespace

std::uint64_t varint_bytes(std::uint64_t number) noexcept {
  return google::protobuf::io::CodedOutputStream::VarintSize64(number);
}

std::uint64_t with_length(std::uint64_t bytes) noexcept {
  return bytes + varint_bytes(bytes);
}

std::uint64_t tag_bytes(const FieldDescriptor& field) {
  return WireFormat::TagSize(field.number(), field.type());
}

std::uint64_t message_bytes(const FieldDescriptor& field, std::uint64_t bytes) noexcept {
  return field.type() == FieldDescriptor::TYPE_GROUP ? bytes : with_length(bytes);
}

std::uint64_t scalar_bytes(const Message& message, const FieldDescriptor& field, Element element) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    std::string scratch;
    return with_length(string_of(message, field, element, scratch).size());
  }
  return number_bytes(field.type(), has_fixed_bytes(field) ? 0 : bits_of(message, field, element));
}

std::uint64_t scalar_bytes(const MapEntry& entry, const FieldDescriptor& value) {
  if (value.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return with_length(entry.value.GetStringValue().size());
  }
  return number_bytes(value.type(), bits_of(entry.value, value));
}

std::uint64_t key_bytes(const MapEntry& entry, const FieldDescriptor& field) {
  const FieldDescriptor& key = *field.message_type()->map_key();
  if (key.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return 2 + with_length(entry.key.GetStringValue().size());
  }
  return 2 + number_bytes(key.type(), bits_of(entry.key));
}

const std::string& string_of(const Message& message, const FieldDescriptor& field, Element element,
                             std::string& scratch) {
  const Reflection& get = *message.GetReflection();
  return element ? get.GetRepeatedStringReference(message, &field, *element, &scratch)
                 : get.GetStringReference(message, &field, &scratch);
}

const Message& message_of(const Message& message, const FieldDescriptor& field, Element element) {
  const Reflection& get = *message.GetReflection();
  return element ? get.GetRepeatedMessage(message, &field, *element) : get.GetMessage(message, &field);
}

void copy_scalar(const Message& from, const FieldDescriptor& field, Element element, Message& to) {
  const Reflection& get = *from.GetReflection();
  const Reflection& set = *to.GetReflection();
  const auto copy = [&](auto one, auto of_list, auto assign, auto append) {
    if (element) {
      (set.*append)(&to, &field, (get.*of_list)(from, &field, *element));
    } else {
      (set.*assign)(&to, &field, (get.*one)(from, &field));
    }
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return copy(&Reflection::GetInt32, &Reflection::GetRepeatedInt32, &Reflection::SetInt32,
                  &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return copy(&Reflection::GetInt64, &Reflection::GetRepeatedInt64, &Reflection::SetInt64,
                  &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return copy(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32, &Reflection::SetUInt32,
                  &Reflection::AddUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return copy(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64, &Reflection::SetUInt64,
                  &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return copy(&Reflection::GetFloat, &Reflection::GetRepeatedFloat, &Reflection::SetFloat,
                  &Reflection::AddFloat);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return copy(&Reflection::GetDouble, &Reflection::GetRepeatedDouble, &Reflection::SetDouble,
                  &Reflection::AddDouble);
    case FieldDescriptor::CPPTYPE_BOOL:
      return copy(&Reflection::GetBool, &Reflection::GetRepeatedBool, &Reflection::SetBool,
                  &Reflection::AddBool);
    case FieldDescriptor::CPPTYPE_ENUM:
      return copy(&Reflection::GetEnumValue, &Reflection::GetRepeatedEnumValue, &Reflection::SetEnumValue,
                  &Reflection::AddEnumValue);
    case FieldDescriptor::CPPTYPE_STRING:
      return copy(&Reflection::GetString, &Reflection::GetRepeatedString, &Reflection::SetString,
                  &Reflection::AddString);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return;
  }
}

Message* copy_entry(const MapEntry& entry, const FieldDescriptor& field, Message& to) {
  MapValueRef value = entry_for(to, field, entry.key);
  const FieldDescriptor& type = *field.message_type()->map_value();
  if (type.message_type() != nullptr) {
    return value.MutableMessageValue();
  }
  copy_scalar(entry.value, value, type);
  return nullptr;
}

std::uint64_t unknown_bytes(const UnknownField& field) {
  const std::uint64_t tag = varint_bytes(std::uint64_t{static_cast<std::uint32_t>(field.number())} << 3);
  switch (field.type()) {
    case UnknownField::TYPE_VARINT:
      return tag + varint_bytes(field.varint());
    case UnknownField::TYPE_FIXED32:
      return tag + 4;
    case UnknownField::TYPE_FIXED64:
      return tag + 8;
    case UnknownField::TYPE_LENGTH_DELIMITED:
      return tag + with_length(field.GetLengthDelimitedSize());
    case UnknownField::TYPE_GROUP:
      return 2 * tag + WireFormat::ComputeUnknownFieldsSize(field.group());
  }
  return 0;
}

}  // namespace cairn::proto
