// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <google/protobuf/message.h>

#include "proto/map_access.hpp"

namespace cairn::proto {

/// A place in a field: an element of a repeated one, or nothing for a singular one.
using Element = std::optional<int>;

/// Bytes of a varint, and of what lies behind its length.
[[nodiscard]] std::uint64_t varint_bytes(std::uint64_t number) noexcept;
[[nodiscard]] std::uint64_t with_length(std::uint64_t bytes) noexcept;
/// Bytes of the tag of a field; of both tags of a group.
[[nodiscard]] std::uint64_t tag_bytes(const google::protobuf::FieldDescriptor& field);

/// Bytes of a message in a field, without tag; `bytes` are its own.
[[nodiscard]] std::uint64_t message_bytes(const google::protobuf::FieldDescriptor& field,
                                          std::uint64_t bytes) noexcept;

/// Bytes of a value that is not a message, in the binary form, without tag.
[[nodiscard]] std::uint64_t scalar_bytes(const google::protobuf::Message& message,
                                         const google::protobuf::FieldDescriptor& field, Element element);
/// The same of the value of an entry, and of its key with the tag of either.
[[nodiscard]] std::uint64_t scalar_bytes(const MapEntry& entry,
                                         const google::protobuf::FieldDescriptor& value);
[[nodiscard]] std::uint64_t key_bytes(const MapEntry& entry, const google::protobuf::FieldDescriptor& field);

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
/// Adds an entry of a map with its key; without its value where that is a message, which is returned.
google::protobuf::Message* copy_entry(const MapEntry& entry, const google::protobuf::FieldDescriptor& field,
                                      google::protobuf::Message& to);

/// Bytes of an unknown field with its tags.
[[nodiscard]] std::uint64_t unknown_bytes(const google::protobuf::UnknownField& field);

}  // namespace cairn::proto
