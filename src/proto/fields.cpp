// SPDX-License-Identifier: Apache-2.0
#include "proto/fields.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <new>
#include <type_traits>
#include <variant>
#include <vector>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/wire_format.h>

#include "proto/scalars.hpp"
#include "proto/tags.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::UnknownField;
using google::protobuf::internal::WireFormat;

std::uint64_t varint_bytes(std::uint64_t number) noexcept {
  return google::protobuf::io::CodedOutputStream::VarintSize64(number);
}

template <class T>
std::uint64_t bytes_of_value(FieldDescriptor::Type type, const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return with_length(value.size());
  } else if constexpr (std::is_arithmetic_v<T>) {
    return bytes_of_number(type, value);
  } else {
    return 0;
  }
}

std::string little_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) {
    bytes += static_cast<char>(number >> shift & 0xFF);
  }
  return bytes;
}

template <class T>
std::string text_of_value(const FieldDescriptor& field, const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_arithmetic_v<T>) {
    if constexpr (std::is_same_v<T, int>) {
      if (field.enum_type() != nullptr) {
        const auto* named = field.enum_type()->FindValueByNumber(value);
        return named != nullptr ? named->name() : little_endian(static_cast<std::uint32_t>(value));
      }
    }
    std::array<char, 32> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
  } else {
    return value;
  }
}

}  // namespace

std::uint64_t with_length(std::uint64_t bytes) noexcept {
  return bytes + varint_bytes(bytes);
}

std::uint64_t tag_bytes(const FieldDescriptor& field) {
  return WireFormat::TagSize(field.number(), field.type());
}

std::uint64_t number_bytes(const Message& message, const FieldDescriptor& field, Element element) {
  return with_scalar(field, [&](const auto& functions) {
    return bytes_of_value(field.type(), functions.of(message, field, element));
  });
}

std::uint64_t key_bytes(const Tag& key_of_entry, const FieldDescriptor& field) {
  const FieldDescriptor& key = *field.message_type()->map_key();
  return 2 +
         std::visit([&key](const auto& value) { return bytes_of_value(key.type(), value); }, key_of_entry);
}

std::string number_text(const Message& message, const FieldDescriptor& field, Element element) {
  return with_scalar(field, [&](const auto& functions) {
    return text_of_value(field, functions.of(message, field, element));
  });
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

std::uint64_t bytes_below(std::uint64_t above, const Message& message) {
  return above > std::numeric_limits<std::uint32_t>::max()
             ? message.ByteSizeLong()
             : static_cast<std::uint32_t>(message.GetCachedSize());
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
  const Reflection& set = *to.GetReflection();
  with_scalar(field, [&](const auto& functions) {
    (set.*(element ? functions.add : functions.set))(&to, &field, functions.of(from, field, element));
  });
}

const FieldDescriptor* only_number_list(const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  return fields.size() == 1 && is_number_list(*fields.front()) && reflection.GetUnknownFields(message).empty()
             ? fields.front()
             : nullptr;
}

void reserve_numbers(Message& message, const FieldDescriptor& field, int needed, int expected) {
  with_scalar(field, [&]<class T>(const ScalarFunctions<T>& /*functions*/) {
    if constexpr (std::is_arithmetic_v<T>) {
      auto& numbers = numbers_of<T>(message, field);
      if (numbers.Capacity() >= needed) {
        return;
      }
      try {
        numbers.Reserve(expected);
      } catch (const std::bad_alloc&) {
        // The list is as it was, and grows by steps.
      }
    }
  });
}

void copy_numbers(const Message& from, const FieldDescriptor& field, std::size_t begin, std::size_t end,
                  Message& to) {
  with_scalar(field, [&]<class T>(const ScalarFunctions<T>& /*functions*/) {
    if constexpr (std::is_arithmetic_v<T>) {
      const auto first = numbers_of<T>(from, field).begin();
      numbers_of<T>(to, field).Add(first + static_cast<std::ptrdiff_t>(begin),
                                   first + static_cast<std::ptrdiff_t>(end));
    }
  });
}

}  // namespace cairn::proto
