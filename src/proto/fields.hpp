// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <google/protobuf/message.h>

#include "proto/tags.hpp"

namespace cairn::proto {

/// A place in a field: an element of a repeated one, or nothing for a singular one.
using Element = std::optional<int>;

/// Bytes of what lies behind its length, with the length.
[[nodiscard]] std::uint64_t with_length(std::uint64_t bytes) noexcept;
/// Bytes of the tag of a field; of both tags of a group.
[[nodiscard]] std::uint64_t tag_bytes(const google::protobuf::FieldDescriptor& field);
/// Bytes of a number in the binary form, without tag.
[[nodiscard]] std::uint64_t number_bytes(const google::protobuf::Message& message,
                                         const google::protobuf::FieldDescriptor& field, Element element);
/// The same of a key of a map, which may be a string, with the tags of key and value.
[[nodiscard]] std::uint64_t key_bytes(const Tag& key_of_entry,
                                      const google::protobuf::FieldDescriptor& field);
/// The shortest text that is read as the same number, `true` or `false`, or the name of an enum's value; of a value
/// without a name its four bytes.
[[nodiscard]] std::string number_text(const google::protobuf::Message& message,
                                      const google::protobuf::FieldDescriptor& field, Element element);
/// Bytes of an unknown field with its tags.
[[nodiscard]] std::uint64_t unknown_bytes(const google::protobuf::UnknownField& field);
/// Bytes of a message that lies in one of `above` bytes, after ByteSizeLong of that. Protobuf keeps 32 bits of a size,
/// so below a message of 4 GiB or more they are counted again.
[[nodiscard]] std::uint64_t bytes_below(std::uint64_t above, const google::protobuf::Message& message);

/// The string of a field, which lies in the message; `scratch` is not used with strings as std::string has them.
[[nodiscard]] const std::string& string_of(const google::protobuf::Message& message,
                                           const google::protobuf::FieldDescriptor& field, Element element,
                                           std::string& scratch);
/// A message in a field.
[[nodiscard]] const google::protobuf::Message& message_of(const google::protobuf::Message& message,
                                                          const google::protobuf::FieldDescriptor& field,
                                                          Element element);

/// Sets a field that is not a message to what it is in `from`; an element is appended.
void copy_scalar(const google::protobuf::Message& from, const google::protobuf::FieldDescriptor& field,
                 Element element, google::protobuf::Message& to);
/// Returns the field of a message that has nothing but a list of numbers; null of any other.
[[nodiscard]] const google::protobuf::FieldDescriptor* only_number_list(
    const google::protobuf::Message& message);
/// Where a list has no room for `needed` numbers, makes room for the `expected` ones, if there is memory for them.
void reserve_numbers(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field,
                     int needed, int expected);
/// Appends the elements [begin, end) of a list of numbers.
void copy_numbers(const google::protobuf::Message& from, const google::protobuf::FieldDescriptor& field,
                  std::size_t begin, std::size_t end, google::protobuf::Message& to);

}  // namespace cairn::proto
