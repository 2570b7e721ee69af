// SPDX-License-Identifier: Apache-2.0
#include "proto/place.hpp"

#include <system_error>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "proto/map_access.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::MapValueRef;
using google::protobuf::Message;
using google::protobuf::Reflection;

[[noreturn]] void refuse_place(std::string_view name, const std::string& why) {
  throw Error(Errc::malformed_metadata, fmt::format("{}: {}", name, why));
}

/// Makes elements up to `index`.
void extend(Message& message, const FieldDescriptor& field, std::uint64_t index, std::string_view name,
            std::uint64_t& empty_elements) {
  const Reflection& reflection = *message.GetReflection();
  const auto size = static_cast<std::uint64_t>(reflection.FieldSize(message, &field));
  if (index < size) {
    return;
  }
  if (field.message_type() == nullptr) {
    refuse_place(name, fmt::format("there is no element {} among {}", index, size));
  }
  const std::uint64_t missing = index - size;
  if (missing > empty_elements) {
    refuse_place(name, fmt::format("{} elements before it are in no chunk, and {} are allowed", missing,
                                   empty_elements));
  }
  empty_elements -= missing;
  for (std::uint64_t i = size; i <= index; ++i) {
    reflection.AddMessage(&message, &field);
  }
}

template <class T>
std::optional<T> from_text(std::string_view bytes) {
  if constexpr (std::is_same_v<T, bool>) {
    return bytes == "true" ? std::optional(true) : bytes == "false" ? std::optional(false) : std::nullopt;
  } else {
    T value = 0;
    const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), value);
    return error == std::errc() && end == bytes.data() + bytes.size() ? std::optional(value) : std::nullopt;
  }
}

template <class T>
std::optional<T> from_binary(std::string_view bytes) {
  if (bytes.size() != sizeof(T)) {
    return std::nullopt;
  }
  std::string own_order(bytes);
  if constexpr (std::endian::native == std::endian::big) {
    std::reverse(own_order.begin(), own_order.end());
  }
  if constexpr (std::is_same_v<T, bool>) {
    return own_order[0] == 0 || own_order[0] == 1 ? std::optional(own_order[0] == 1) : std::nullopt;
  } else {
    T value = 0;
    std::memcpy(&value, own_order.data(), sizeof(T));
    return value;
  }
}

std::optional<int> enum_from_text(const EnumDescriptor& type, const std::string& bytes) {
  const auto* value = type.FindValueByName(bytes);
  return value != nullptr ? std::optional(value->number()) : std::nullopt;
}

std::optional<int> enum_from_binary(const EnumDescriptor& type, std::string_view bytes) {
  const std::optional<std::int32_t> number = from_binary<std::int32_t>(bytes);
  const bool is_open = type.file()->syntax() == FileDescriptor::SYNTAX_PROTO3;
  return number && (is_open || type.FindValueByNumber(*number) != nullptr) ? number : std::nullopt;
}

/// Takes the text where there is one; says so where the bytes mean something else in binary form.
template <class T>
T choose(std::optional<T> text, std::optional<T> binary, const FieldDescriptor& value, std::string_view name,
         std::vector<std::string>& remarks) {
  if (text && binary) {
    remarks.push_back(fmt::format("{}: the chunk is read as the text of {}; as binary it would be {}", name,
                                  *text, *binary));
  }
  if (!text && !binary) {
    refuse_place(name, fmt::format("the chunk is not a value of type {}, neither as text nor as binary",
                                   value.type_name()));
  }
  return text ? *text : *binary;
}

template <class T>
void put(MergePlace& place, T value, void (Reflection::*set)(Message*, const FieldDescriptor*, T) const,
         void (Reflection::*set_element)(Message*, const FieldDescriptor*, int, T) const,
         void (MapValueRef::*set_entry)(T)) {
  const Reflection& reflection = *place.message->GetReflection();
  if (place.entry) {
    ((*place.entry).*set_entry)(value);
  } else if (place.index) {
    (reflection.*set_element)(place.message, place.field, *place.index, value);
  } else {
    (reflection.*set)(place.message, place.field, value);
  }
}

void set_string(MergePlace& place, std::string bytes, bool append) {
  const Reflection& reflection = *place.message->GetReflection();
  if (place.entry) {
    auto& text =
        const_cast<std::string&>(place.entry->GetStringValue());  // It lies in the map, which is not const.
    text = append ? text + bytes : std::move(bytes);
  } else if (place.index) {
    const std::string before =
        append ? reflection.GetRepeatedString(*place.message, place.field, *place.index) : std::string();
    reflection.SetRepeatedString(place.message, place.field, *place.index,
                                 append ? before + bytes : std::move(bytes));
  } else {
    const std::string before = append ? reflection.GetString(*place.message, place.field) : std::string();
    reflection.SetString(place.message, place.field, append ? before + bytes : std::move(bytes));
  }
}

}  // namespace

MergePlace make_place(Message& out, const MergeStep& step, std::uint64_t& empty_elements) {
  MergePlace place;
  place.message = &out;
  const auto name = [&] {
    return fmt::format("chunk {} at {}", step.chunk, to_text(*out.GetDescriptor(), step.path));
  };
  for (std::size_t i = 0; i < step.path.size(); ++i) {
    Message& message = *place.message;
    const Reflection& reflection = *message.GetReflection();
    const auto number = static_cast<int>(std::get<FieldNumber>(step.path[i]).value);
    place.field = find_field(*message.GetDescriptor(), number);
    const FieldDescriptor& field = *place.field;
    if (field.is_map()) {
      place.entry = entry_for(message, field, to_map_key(step.path[++i]));
      if (field.message_type()->map_value()->message_type() != nullptr) {
        place.message = place.entry->MutableMessageValue();
        place.entry.reset();
      }
    } else if (field.is_repeated()) {
      const std::uint64_t index = std::get<ElementIndex>(step.path[++i]).value;
      extend(message, field, index,
             index < static_cast<std::uint64_t>(reflection.FieldSize(message, &field)) ? "" : name(),
             empty_elements);
      place.index = static_cast<int>(index);
      if (field.message_type() != nullptr) {
        place.message = reflection.MutableRepeatedMessage(&message, &field, *place.index);
        place.index.reset();
      }
    } else if (field.message_type() != nullptr) {
      place.message = reflection.MutableMessage(&message, &field);
    }
  }
  return place;
}

void set_scalar(MergePlace& place, const FieldDescriptor& value, std::string bytes, bool append,
                std::string_view name, std::vector<std::string>& remarks) {
  const auto number = [&]<class T>(T /*type*/) {
    return choose<T>(from_text<T>(bytes), from_binary<T>(bytes), value, name, remarks);
  };
  switch (value.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return put(place, number(std::int32_t{}), &Reflection::SetInt32, &Reflection::SetRepeatedInt32,
                 &MapValueRef::SetInt32Value);
    case FieldDescriptor::CPPTYPE_INT64:
      return put(place, number(std::int64_t{}), &Reflection::SetInt64, &Reflection::SetRepeatedInt64,
                 &MapValueRef::SetInt64Value);
    case FieldDescriptor::CPPTYPE_UINT32:
      return put(place, number(std::uint32_t{}), &Reflection::SetUInt32, &Reflection::SetRepeatedUInt32,
                 &MapValueRef::SetUInt32Value);
    case FieldDescriptor::CPPTYPE_UINT64:
      return put(place, number(std::uint64_t{}), &Reflection::SetUInt64, &Reflection::SetRepeatedUInt64,
                 &MapValueRef::SetUInt64Value);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return put(place, number(float{}), &Reflection::SetFloat, &Reflection::SetRepeatedFloat,
                 &MapValueRef::SetFloatValue);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return put(place, number(double{}), &Reflection::SetDouble, &Reflection::SetRepeatedDouble,
                 &MapValueRef::SetDoubleValue);
    case FieldDescriptor::CPPTYPE_BOOL:
      return put(place, number(bool{}), &Reflection::SetBool, &Reflection::SetRepeatedBool,
                 &MapValueRef::SetBoolValue);
    case FieldDescriptor::CPPTYPE_ENUM: {
      const EnumDescriptor& type = *value.enum_type();
      return put(place,
                 choose(enum_from_text(type, bytes), enum_from_binary(type, bytes), value, name, remarks),
                 &Reflection::SetEnumValue, &Reflection::SetRepeatedEnumValue, &MapValueRef::SetEnumValue);
    }
    case FieldDescriptor::CPPTYPE_STRING:
      return set_string(place, std::move(bytes), append);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return;
  }
}

}  // namespace cairn::proto
