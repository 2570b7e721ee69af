// SPDX-License-Identifier: Apache-2.0
#include "proto/random_message.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/unknown_field_set.h>

#include "proto/fields.hpp"
#include "proto/scalars.hpp"
#include "shapes.pb.h"
#include "shapes3.pb.h"

namespace cairn::testing {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::UnknownFieldSet;

std::uint64_t random_number(Dice& dice) {
  static constexpr std::array<std::uint64_t, 6> kSpecial{
      0, 1, 127, 128, std::numeric_limits<std::uint32_t>::max(), std::numeric_limits<std::uint64_t>::max()};
  return dice.one_in(2) ? dice.pick(kSpecial) : dice.next() >> dice.below(64);
}

std::string random_text(Dice& dice) {
  const std::size_t length = dice.one_in(12) ? dice.below(1000) : dice.below(24);
  std::string text(length, static_cast<char>('a' + dice.below(26)));
  if (length > 0) {
    text[dice.below(length)] = static_cast<char>('a' + dice.below(26));
  }
  return text;
}

int random_enum(const FieldDescriptor& field, Dice& dice) {
  const auto& type = *field.enum_type();
  return type.value(static_cast<int>(dice.below(static_cast<std::size_t>(type.value_count()))))->number();
}

int random_count(Dice& dice) {
  return static_cast<int>(dice.one_in(16) ? dice.below(40) : dice.below(4));
}

/// A scalar of the type of a field.
template <class T>
T random_scalar(const FieldDescriptor& field, Dice& dice) {
  if constexpr (std::is_same_v<T, std::string>) {
    return random_text(dice);
  } else {
    return field.enum_type() != nullptr ? static_cast<T>(random_enum(field, dice))
                                        : static_cast<T>(random_number(dice));
  }
}

void set_scalar_randomly(Message& message, const FieldDescriptor& field, Dice& dice) {
  proto::with_scalar(field, [&]<class T>(const proto::ScalarFunctions<T>& functions) {
    const auto set = field.is_repeated() ? functions.add : functions.set;
    (message.GetReflection()->*set)(&message, &field, random_scalar<T>(field, dice));
  });
}

/// A value of an entry, or a field of its own.
void fill_singular(Message& message, const FieldDescriptor& field, Dice& dice, int most_depth) {
  if (field.message_type() != nullptr) {
    fill_randomly(*message.GetReflection()->MutableMessage(&message, &field), dice, most_depth - 1);
  } else {
    set_scalar_randomly(message, field, dice);
  }
}

/// Adds an entry, whose key may be there already: of two the last counts.
void add_entry_randomly(Message& message, const FieldDescriptor& field, Dice& dice, int most_depth) {
  Message& entry = *message.GetReflection()->AddMessage(&message, &field);
  const FieldDescriptor& key = *field.message_type()->map_key();
  set_scalar_randomly(entry, key, dice);
  if (key.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {  // A page may be as large as a key.
    const Reflection& reflection = *entry.GetReflection();
    reflection.SetString(&entry, &key, reflection.GetString(entry, &key).substr(0, 12));
  }
  fill_singular(entry, *field.message_type()->map_value(), dice, most_depth);
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
    } else if (field.is_repeated() && field.message_type() != nullptr) {
      fill_randomly(*reflection.AddMessage(&message, &field), dice, most_depth - 1);
    } else {
      fill_singular(message, field, dice, most_depth);
    }
  }
}

/// Returns entries in binary form that have keys of the message, and other values. They are few and small.
std::string entries_again(const Message& message, Dice& dice) {
  const Reflection& reflection = *message.GetReflection();
  std::string wire;
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    for (int i = random_count(dice) % 4; field->is_map() && i > 0; --i) {
      const auto size = static_cast<std::size_t>(reflection.FieldSize(message, field));
      const Message& there =
          reflection.GetRepeatedMessage(message, field, static_cast<int>(dice.below(size)));
      const std::unique_ptr<Message> one(message.New());
      Message& entry = *reflection.AddMessage(one.get(), field);
      proto::copy_scalar(there, *field->message_type()->map_key(), {}, entry);
      fill_singular(entry, *field->message_type()->map_value(), dice, 1);
      wire += one->SerializePartialAsString();
    }
  }
  return wire;
}

/// Puts a message through its binary form, with some keys of maps in it twice.
void through_wire(Message& message, Dice& dice) {
  const std::string again = entries_again(message, dice);
  const std::string whole = message.SerializePartialAsString();
  // In front the other values do not count, and the keys come in another order.
  if (!message.ParsePartialFromString(dice.one_in(2) ? again + whole : whole + again)) {
    throw std::runtime_error("protobuf does not read what it has written");
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

const Message& Prototypes::pick(Dice& dice) {
  const Message& generated = dice.one_in(3)
                                 ? static_cast<const Message&>(test::shapes3::Modern::default_instance())
                                 : test::shapes::All::default_instance();
  return dice.one_in(2) ? generated : *factory_.GetPrototype(generated.GetDescriptor());
}

void fill_randomly(Message& message, Dice& dice, int most_depth) {
  std::vector<const FieldDescriptor*> fields;
  message.GetDescriptor()->file()->pool()->FindAllExtensions(message.GetDescriptor(), &fields);
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    fields.push_back(message.GetDescriptor()->field(i));
  }
  const std::size_t one_in = dice.one_in(8) ? 2 : 8 + dice.below(24);
  for (const FieldDescriptor* field : fields) {
    if (dice.one_in(field->message_type() != nullptr ? one_in + 2 : one_in)) {
      fill_field(message, *field, dice, most_depth);
    }
  }
  if (dice.one_in(5)) {
    add_unknown_fields(*message.GetReflection()->MutableUnknownFields(&message), dice, 1);
  }
  if (dice.one_in(4)) {
    through_wire(message, dice);
  }
}

std::string serialised(const Message& message) {
  const Message* generated =
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(message.GetDescriptor());
  if (generated != nullptr && generated->GetReflection() != message.GetReflection()) {
    const std::unique_ptr<Message> copy(generated->New());
    return copy->ParsePartialFromString(message.SerializePartialAsString()) ? serialised(*copy)
                                                                            : "what protobuf does not read";
  }
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
