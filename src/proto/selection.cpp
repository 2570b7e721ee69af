// SPDX-License-Identifier: Apache-2.0
#include "proto/selection.hpp"

#include <cstddef>
#include <string>

#include <fmt/format.h>
#include <google/protobuf/unknown_field_set.h>

#include "cairn/base/error.hpp"

#include "proto/fields.hpp"
#include "proto/scalars.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

/// How many elements a field of a message has, or how many unknown fields where it is null.
std::size_t elements_of(const FieldDescriptor* field, const Message& message) {
  if (field == nullptr) {
    return static_cast<std::size_t>(message.GetReflection()->GetUnknownFields(message).field_count());
  }
  return field->is_repeated() ? static_cast<std::size_t>(message.GetReflection()->FieldSize(message, field))
                              : 1;
}

/// Checks that a message has as many elements as when they were selected.
void check_unchanged(const SelectedItem& item, const Message& from, std::size_t there) {
  const bool is_same =
      item.entries == nullptr ? item.end <= there : static_cast<std::size_t>(item.entries->listed) == there;
  if (!is_same) {
    throw Error(Errc::invalid_argument,
                fmt::format("a {} was changed: its {} has {} elements by now", from.GetTypeName(),
                            item.field != nullptr ? "'" + item.field->name() + "'" : "list of unknown fields",
                            there));
  }
}

void fill_message(const SelectedItem& item, const FieldDescriptor& field, const Message& from,
                  Element element, Message& out, bool attach) {
  const Reflection& reflection = *out.GetReflection();
  Message* child = element ? reflection.AddMessage(&out, &field) : reflection.MutableMessage(&out, &field);
  if (item.rest != nullptr) {
    fill(*item.rest, *child, attach);
  } else if (!item.blank) {
    child->CopyFrom(message_of(from, field, element));
  }
}

void fill_entry(const SelectedItem& item, const MapEntry& entry, const Message& from, Message& out,
                bool attach) {
  const Message* listed = find_listed(from, *item.field, entry);
  if (listed == nullptr) {
    throw Error(Errc::invalid_argument, fmt::format("a {} was changed: its '{}' has other keys by now",
                                                    from.GetTypeName(), item.field->name()));
  }
  Message& made = add_entry(out, *item.field, entry.key);
  const FieldDescriptor& value = *item.field->message_type()->map_value();
  if (value.message_type() != nullptr) {
    fill_message(item, value, *listed, {}, made, attach);
  } else {
    copy_scalar(*listed, value, {}, made);
  }
}

/// Has a page in an arena refer to whole messages, which the arena neither frees nor changes.
void attach_messages(const SelectedItem& item, const Message& from, Message& out) {
  if (!item.field->is_repeated()) {
    auto& child = const_cast<Message&>(message_of(from, *item.field, {}));
    return out.GetReflection()->UnsafeArenaSetAllocatedMessage(&out, &child, item.field);
  }
  const auto& children = messages_of(from, *item.field);
  auto& list = messages_of(out, *item.field);
  for (std::size_t i = item.begin; i < item.end; ++i) {
    list.UnsafeArenaAddAllocated(const_cast<Message*>(&children[static_cast<int>(i)]));
  }
}

}  // namespace

void fill(const Selection& selection, Message& out, bool attach) {
  const Message& from = *selection.message;
  const Reflection& reflection = *out.GetReflection();
  for (const SelectedItem& item : selection.items) {
    const bool ends_field = &item == &selection.items.back() || (&item)[1].field != item.field;
    check_unchanged(item, from, elements_of(item.field, from));
    if (item.field != nullptr && is_number_list(*item.field)) {
      copy_numbers(from, *item.field, item.begin, item.end, out);
      continue;
    }
    const bool are_messages = item.field != nullptr && item.field->message_type() != nullptr;
    if (attach && are_messages && item.entries == nullptr && item.rest == nullptr && !item.blank) {
      attach_messages(item, from, out);
      continue;
    }
    for (std::size_t i = item.begin; i < item.end; ++i) {
      const auto at = static_cast<int>(i);
      const Element element = item.field != nullptr && item.field->is_repeated() ? Element(at) : Element();
      if (item.field == nullptr) {
        reflection.MutableUnknownFields(&out)->AddField(reflection.GetUnknownFields(from).field(at));
      } else if (item.entries != nullptr) {
        fill_entry(item, item.entries->sorted[i], from, out, attach);
      } else if (are_messages) {
        fill_message(item, *item.field, from, element, out, attach);
      } else if (item.blank) {
        reflection.AddString(&out, item.field, std::string());
      } else {
        copy_scalar(from, *item.field, element, out);
      }
    }
    if (item.entries != nullptr && ends_field) {
      move_into_map(out, *item.field);
    }
  }
}

}  // namespace cairn::proto
