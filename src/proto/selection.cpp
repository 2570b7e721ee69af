// SPDX-License-Identifier: Apache-2.0
#include "proto/selection.hpp"

#include <string>

#include <google/protobuf/unknown_field_set.h>

#include "proto/fields.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::uint64_t size_of_message(const Message& message, bool cached) {
  return cached ? static_cast<std::uint64_t>(message.GetCachedSize()) : message.ByteSizeLong();
}

std::uint64_t entry_bytes(const SelectedItem& item, const MapEntry& entry, bool cached) {
  const FieldDescriptor& value = *item.field->message_type()->map_value();
  const std::uint64_t key = key_bytes(entry, *item.field);
  if (item.rest != nullptr) {
    return key + with_length(item.rest->size_bytes);
  }
  if (value.message_type() != nullptr) {
    return key + with_length(size_of_message(entry.value.GetMessageValue(), cached));
  }
  return key + scalar_bytes(entry, value);
}

std::uint64_t bytes_of(const SelectedItem& item, const Message& message, bool cached) {
  std::uint64_t bytes = 0;
  if (item.field == nullptr) {
    const auto& unknown = message.GetReflection()->GetUnknownFields(message);
    for (std::uint32_t i = item.begin; i < item.end; ++i) {
      bytes += unknown_bytes(unknown.field(static_cast<int>(i)));
    }
    return bytes;
  }
  const FieldDescriptor& field = *item.field;
  const bool packed = field.is_packed();
  const std::uint64_t tag = packed ? 0 : tag_bytes(field);
  for (std::uint32_t i = item.begin; i < item.end; ++i) {
    const Element element = field.is_repeated() ? Element(static_cast<int>(i)) : Element();
    bytes += tag;
    if (item.entries != nullptr) {
      bytes += with_length(entry_bytes(item, (*item.entries)[i], cached));
    } else if (field.message_type() != nullptr) {
      bytes += message_bytes(field, item.blank ? 0
                                    : item.rest != nullptr
                                        ? item.rest->size_bytes
                                        : size_of_message(message_of(message, field, element), cached));
    } else {
      bytes += item.blank ? 1 : scalar_bytes(message, field, element);
    }
  }
  return packed ? tag_bytes(field) + with_length(bytes) : bytes;
}

void fill_entry(const SelectedItem& item, const MapEntry& entry, Message& out, bool attach) {
  Message* value = copy_entry(entry, *item.field, out);
  if (value == nullptr) {
    return;
  }
  if (item.rest != nullptr) {
    fill(*item.rest, *value, attach);
  } else {
    value->CopyFrom(entry.value.GetMessageValue());
  }
}

void fill_message(const SelectedItem& item, const Message& from, Element element, Message& out, bool attach) {
  const Reflection& reflection = *out.GetReflection();
  if (attach && item.rest == nullptr && !item.blank) {
    // The arena neither frees nor changes what it only refers to.
    auto& child = const_cast<Message&>(message_of(from, *item.field, element));
    if (element) {
      reflection.UnsafeArenaAddAllocatedMessage(&out, item.field, &child);
    } else {
      reflection.UnsafeArenaSetAllocatedMessage(&out, &child, item.field);
    }
    return;
  }
  Message* child =
      element ? reflection.AddMessage(&out, item.field) : reflection.MutableMessage(&out, item.field);
  if (item.rest != nullptr) {
    fill(*item.rest, *child, attach);
  } else if (!item.blank) {
    child->CopyFrom(message_of(from, *item.field, element));
  }
}

void fill_item(const SelectedItem& item, const Message& from, Message& out, bool attach) {
  if (item.field == nullptr) {
    const auto& unknown = from.GetReflection()->GetUnknownFields(from);
    for (std::uint32_t i = item.begin; i < item.end; ++i) {
      out.GetReflection()->MutableUnknownFields(&out)->AddField(unknown.field(static_cast<int>(i)));
    }
    return;
  }
  for (std::uint32_t i = item.begin; i < item.end; ++i) {
    const Element element = item.field->is_repeated() ? Element(static_cast<int>(i)) : Element();
    if (item.entries != nullptr) {
      fill_entry(item, (*item.entries)[i], out, attach);
    } else if (item.field->message_type() != nullptr) {
      fill_message(item, from, element, out, attach);
    } else if (item.blank) {
      out.GetReflection()->AddString(&out, item.field, std::string());
    } else {
      copy_scalar(from, *item.field, element, out);
    }
  }
}

}  // namespace

void measure(Selection& selection, bool cached) {
  selection.size_bytes = 0;
  for (const SelectedItem& item : selection.items) {
    selection.size_bytes += bytes_of(item, *selection.message, cached);
  }
}

void fill(const Selection& selection, Message& out, bool attach) {
  for (const SelectedItem& item : selection.items) {
    fill_item(item, *selection.message, out, attach);
  }
}

}  // namespace cairn::proto
