// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message.h>
#include <google/protobuf/repeated_field.h>

namespace cairn::proto {

/// Bytes of a number in the binary form, without tag.
template <class T>
[[nodiscard]] std::uint64_t bytes_of_number(google::protobuf::FieldDescriptor::Type type, T number) {
  using google::protobuf::FieldDescriptor;
  if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, bool>) {
    return sizeof(T);
  } else {
    auto bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(number));
    if (type == FieldDescriptor::TYPE_FIXED32 || type == FieldDescriptor::TYPE_SFIXED32 ||
        type == FieldDescriptor::TYPE_FIXED64 || type == FieldDescriptor::TYPE_SFIXED64) {
      return sizeof(T);
    }
    if (type == FieldDescriptor::TYPE_SINT32 || type == FieldDescriptor::TYPE_SINT64) {
      bits = (bits << 1) ^ (0 - (bits >> 63));  // Zigzag: the same for 32 bits, sign extended.
    }
    return google::protobuf::io::CodedOutputStream::VarintSize64(bits);
  }
}

/// Returns whether a field is a list of numbers, booleans or enums.
[[nodiscard]] inline bool is_number_list(const google::protobuf::FieldDescriptor& field) {
  return field.is_repeated() && field.message_type() == nullptr &&
         field.cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_STRING;
}

// Protobuf would have lists be read and written element by element, which takes ten times as long.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
/// The elements of such a list, as they lie in the message.
template <class T>
[[nodiscard]] const google::protobuf::RepeatedField<T>& numbers_of(
    const google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field) {
  return message.GetReflection()->GetRepeatedField<T>(message, &field);
}
template <class T>
[[nodiscard]] google::protobuf::RepeatedField<T>& numbers_of(google::protobuf::Message& message,
                                                             const google::protobuf::FieldDescriptor& field) {
  return *message.GetReflection()->MutableRepeatedField<T>(&message, &field);
}
/// Returns whether a field is a list of messages, and no map.
[[nodiscard]] inline bool is_message_list(const google::protobuf::FieldDescriptor& field) {
  return field.is_repeated() && field.message_type() != nullptr && !field.is_map();
}

/// The elements of such a list.
[[nodiscard]] inline const google::protobuf::RepeatedPtrField<google::protobuf::Message>& messages_of(
    const google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field) {
  return message.GetReflection()->GetRepeatedPtrField<google::protobuf::Message>(message, &field);
}
[[nodiscard]] inline google::protobuf::RepeatedPtrField<google::protobuf::Message>& messages_of(
    google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field) {
  return *message.GetReflection()->MutableRepeatedPtrField<google::protobuf::Message>(&message, &field);
}
#pragma GCC diagnostic pop

/// The calls of protobuf that read and set scalars of one kind: in a field, or as an element.
template <class T>
struct ScalarFunctions {
  using Message = google::protobuf::Message;
  using Field = google::protobuf::FieldDescriptor;
  using Reflection = google::protobuf::Reflection;

  T (Reflection::*get)(const Message&, const Field*) const;
  T (Reflection::*get_element)(const Message&, const Field*, int) const;
  void (Reflection::*set)(Message*, const Field*, T) const;
  void (Reflection::*set_element)(Message*, const Field*, int, T) const;
  void (Reflection::*add)(Message*, const Field*, T) const;

  [[nodiscard]] T of(const Message& message, const Field& field, std::optional<int> element) const {
    const Reflection& reflection = *message.GetReflection();
    return element ? (reflection.*get_element)(message, &field, *element)
                   : (reflection.*get)(message, &field);
  }
};

/// Calls `use` with the functions for the type of a field that is no message.
template <class Use>
auto with_scalar(const google::protobuf::FieldDescriptor& field, const Use& use) {
  using google::protobuf::FieldDescriptor;
  using google::protobuf::Reflection;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return use(ScalarFunctions<std::int32_t>{&Reflection::GetInt32, &Reflection::GetRepeatedInt32,
                                               &Reflection::SetInt32, &Reflection::SetRepeatedInt32,
                                               &Reflection::AddInt32});
    case FieldDescriptor::CPPTYPE_INT64:
      return use(ScalarFunctions<std::int64_t>{&Reflection::GetInt64, &Reflection::GetRepeatedInt64,
                                               &Reflection::SetInt64, &Reflection::SetRepeatedInt64,
                                               &Reflection::AddInt64});
    case FieldDescriptor::CPPTYPE_UINT32:
      return use(ScalarFunctions<std::uint32_t>{&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32,
                                                &Reflection::SetUInt32, &Reflection::SetRepeatedUInt32,
                                                &Reflection::AddUInt32});
    case FieldDescriptor::CPPTYPE_UINT64:
      return use(ScalarFunctions<std::uint64_t>{&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64,
                                                &Reflection::SetUInt64, &Reflection::SetRepeatedUInt64,
                                                &Reflection::AddUInt64});
    case FieldDescriptor::CPPTYPE_FLOAT:
      return use(ScalarFunctions<float>{&Reflection::GetFloat, &Reflection::GetRepeatedFloat,
                                        &Reflection::SetFloat, &Reflection::SetRepeatedFloat,
                                        &Reflection::AddFloat});
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return use(ScalarFunctions<double>{&Reflection::GetDouble, &Reflection::GetRepeatedDouble,
                                         &Reflection::SetDouble, &Reflection::SetRepeatedDouble,
                                         &Reflection::AddDouble});
    case FieldDescriptor::CPPTYPE_BOOL:
      return use(ScalarFunctions<bool>{&Reflection::GetBool, &Reflection::GetRepeatedBool,
                                       &Reflection::SetBool, &Reflection::SetRepeatedBool,
                                       &Reflection::AddBool});
    case FieldDescriptor::CPPTYPE_ENUM:
      return use(ScalarFunctions<int>{&Reflection::GetEnumValue, &Reflection::GetRepeatedEnumValue,
                                      &Reflection::SetEnumValue, &Reflection::SetRepeatedEnumValue,
                                      &Reflection::AddEnumValue});
    default:
      return use(ScalarFunctions<std::string>{&Reflection::GetString, &Reflection::GetRepeatedString,
                                              &Reflection::SetString, &Reflection::SetRepeatedString,
                                              &Reflection::AddString});
  }
}

}  // namespace cairn::proto
