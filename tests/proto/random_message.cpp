// SPDX-License-Identifier: Apache-2.0
#include "proto/random_message.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/unknown_field_set.h>

#include "proto/map_access.hpp"

namespace cairn::testing {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::MapKey;
using google::protobuf::MapValueRef;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::UnknownFieldSet;

std::uint64_t random_number(Dice& dice) {
  static constexpr std::array<std::uint64_t, 6> kSpecial{
      0, 1, 127, 128, std::numeric_limits<std::uint32_t>::max(), std::numeric_limits<std::uint64_t>::max()};
  return dice.one_in(2) ? dice.pick(kSpecial) : dice.next() >> dice.below(64);
}

std::string random_text(Dice& dice) {
  const std::size_t length = dice.one_in(12) ? dice.below(2000) : dice.below(24);
  std::string text;
  for (std::size_t i = 0; i < length; ++i) {
    text += static_cast<char>('a' + dice.below(26));
  }
  return text;
}

int random_enum(const FieldDescriptor& field, Dice& dice) {
  const auto& type = *field.enum_type();
  return type.value(static_cast<int>(dice.below(static_cast<std::size_t>(type.value_count()))))->number();
}

int random_count(Dice& dice) {
  return static_cast<int>(dice.one_in(10) ? dice.below(60) : dice.below(4));
}

void set_scalar_randomly(Message& message, const FieldDescriptor& field, Dice& dice) {
  const Reflection& set = *message.GetReflection();
  const bool add = field.is_repeated();
  const auto number = random_number(dice);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return add ? set.AddInt32(&message, &field, static_cast<std::int32_t>(number))
                 : set.SetInt32(&message, &field, static_cast<std::int32_t>(number));
    case FieldDescriptor::CPPTYPE_INT64:
      return add ? set.AddInt64(&message, &field, static_cast<std::int64_t>(number))
                 : set.SetInt64(&message, &field, static_cast<std::int64_t>(number));
    case FieldDescriptor::CPPTYPE_UINT32:
      return add ? set.AddUInt32(&message, &field, static_cast<std::uint32_t>(number))
                 : set.SetUInt32(&message, &field, static_cast<std::uint32_t>(number));
    case FieldDescriptor::CPPTYPE_UINT64:
      return add ? set.AddUInt64(&message, &field, number) : set.SetUInt64(&message, &field, number);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return add ? set.AddFloat(&message, &field, static_cast<float>(number))
                 : set.SetFloat(&message, &field, static_cast<float>(number));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return add ? set.AddDouble(&message, &field, static_cast<double>(number))
                 : set.SetDouble(&message, &field, static_cast<double>(number));
    case FieldDescriptor::CPPTYPE_BOOL:
      return add ? set.AddBool(&message, &field, number % 2 == 1)
                 : set.SetBool(&message, &field, number % 2 == 1);
    case FieldDescriptor::CPPTYPE_ENUM:
      return add ? set.AddEnumValue(&message, &field, random_enum(field, dice))
                 : set.SetEnumValue(&message, &field, random_enum(field, dice));
    case FieldDescriptor::CPPTYPE_STRING:
      return add ? set.AddString(&message, &field, random_text(dice))
                 : set.SetString(&message, &field, random_text(dice));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return;
  }
}

MapKey random_key(const FieldDescriptor& field, Dice& dice) {
  MapKey key;
  const auto number = random_number(dice);
  switch (field.message_type()->map_key()->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      key.SetStringValue(random_text(dice).substr(0, 12));
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      key.SetBoolValue(number % 2 == 1);
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      key.SetInt32Value(static_cast<std::int32_t>(number));
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      key.SetUInt32Value(static_cast<std::uint32_t>(number));
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      key.SetInt64Value(static_cast<std::int64_t>(number));
      break;
    default:
      key.SetUInt64Value(number);
      break;
  }
  return key;
}

void add_entry_randomly(Message& message, const FieldDescriptor& field, Dice& dice, int most_depth) {
  MapValueRef value = proto::entry_for(message, field, random_key(field, dice));
  const FieldDescriptor& type = *field.message_type()->map_value();
  const auto number = random_number(dice);
  switch (type.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return fill_randomly(*value.MutableMessageValue(), dice, most_depth - 1);
    case FieldDescriptor::CPPTYPE_STRING:
      return value.SetStringValue(random_text(dice));
    case FieldDescriptor::CPPTYPE_BOOL:
      return value.SetBoolValue(number % 2 == 1);
    case FieldDescriptor::CPPTYPE_ENUM:
      return value.SetEnumValue(random_enum(type, dice));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return value.SetFloatValue(static_cast<float>(number));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return value.SetDoubleValue(static_cast<double>(number));
    case FieldDescriptor::CPPTYPE_INT32:
      return value.SetInt32Value(static_cast<std::int32_t>(number));
    case FieldDescriptor::CPPTYPE_UINT32:
      return value.SetUInt32Value(static_cast<std::uint32_t>(number));
    case FieldDescriptor::CPPTYPE_INT64:
      return value.SetInt64Value(static_cast<std::int64_t>(number));
    case FieldDescriptor::CPPTYPE_UINT64:
      return value.SetUInt64Value(number);
  }
}

void fill_field(Message& message, const FieldDescriptor& field, Dice& dice, int most_depth) {
  const Reflection& reflection = *message.GetReflection();
  if (field.message_type() != nullptr && most_depth == 0) {
    return;
  }
  const int count = field.is_repeated() ? random_count(dice) : 1;
  for (int i = 0; i < count; ++i) {
    if (field.is_map()) {
      add_entry_randomly(message, field, dice, most_depth);
    } else if (field.message_type() == nullptr) {
      set_scalar_randomly(message, field, dice);
    } else if (field.is_repeated()) {
      fill_randomly(*reflection.AddMessage(&message, &field), dice, most_depth - 1);
    } else {
      fill_randomly(*reflection.MutableMessage(&message, &field), dice, most_depth - 1);
    }
  }
}

void add_unknown_fields(UnknownFieldSet& fields, Dice& dice, int most_depth) {
  for (int i = random_count(dice) % 5; i > 0; --i) {
    const int number = 5000 + static_cast<int>(dice.below(4));
    switch (dice.below(most_depth > 0 ? 5 : 4)) {
      case 0:
        fields.AddVarint(number, random_number(dice));
        break;
      case 1:
        fields.AddFixed32(number, static_cast<std::uint32_t>(random_number(dice)));
        break;
      case 2:
        fields.AddFixed64(number, random_number(dice));
        break;
      case 3:
        fields.AddLengthDelimited(number, random_text(dice).substr(0, 16));
        break;
      default:
        // A group counts as one piece, so it is small.
        fields.AddGroup(number)->AddVarint(1, random_number(dice));
        break;
    }
  }
}

}  // namespace

void fill_randomly(Message& message, Dice& dice, int most_depth) {
  std::vector<const FieldDescriptor*> fields;
  message.GetDescriptor()->file()->pool()->FindAllExtensions(message.GetDescriptor(), &fields);
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    fields.push_back(message.GetDescriptor()->field(i));
  }
  const std::size_t one_in = 2 + dice.below(12);
  for (const FieldDescriptor* field : fields) {
    if (dice.one_in(field->message_type() != nullptr ? one_in + 2 : one_in)) {
      fill_field(message, *field, dice, most_depth);
    }
  }
  if (dice.one_in(5)) {
    add_unknown_fields(*message.GetReflection()->MutableUnknownFields(&message), dice, 1);
  }
}

std::string serialised(const Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializePartialToCodedStream(&coded);
  }
  return bytes;
}

}  // namespace cairn::testing
