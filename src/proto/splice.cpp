// SPDX-License-Identifier: Apache-2.0
#include "proto/splice.hpp"

#include <cstddef>
#include <memory>
#include <vector>

#include <google/protobuf/unknown_field_set.h>

#include "proto/map_access.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

/// Moves the elements of a field behind those of `to`.
void append_messages(Message& from, Message& to, const FieldDescriptor& field) {
  const Reflection& reflection = *to.GetReflection();
  std::vector<Message*> elements(static_cast<std::size_t>(reflection.FieldSize(from, &field)));
  for (auto element = elements.rbegin(); element != elements.rend(); ++element) {
    *element = reflection.UnsafeArenaReleaseLast(&from, &field);
  }
  for (Message* element : elements) {
    reflection.UnsafeArenaAddAllocatedMessage(&to, &field, element);
  }
}

}  // namespace

void splice(Message& from, Message& to) {
  const Reflection& reflection = *to.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(from, &fields);
  std::vector<const FieldDescriptor*> moved;   // Whole.
  std::vector<const FieldDescriptor*> copied;  // Elements that are not messages, behind others.
  for (const FieldDescriptor* field : fields) {
    const bool is_message = field->message_type() != nullptr;
    if (field->is_repeated() ? reflection.FieldSize(to, field) == 0
                             : !is_message || !reflection.HasField(to, field)) {
      moved.push_back(field);
    } else if (field->is_map()) {
      move_entries(from, to, *field);
    } else if (field->is_repeated() && is_message) {
      append_messages(from, to, *field);
    } else if (field->is_repeated()) {
      copied.push_back(field);
    } else {
      splice(*reflection.MutableMessage(&from, field), *reflection.MutableMessage(&to, field));
    }
  }
  if (!copied.empty()) {
    const std::unique_ptr<Message> part(from.GetArena() == nullptr ? from.New() : nullptr);
    Message* copies = part != nullptr ? part.get() : from.New(from.GetArena());
    reflection.UnsafeArenaSwapFields(&from, copies, copied);
    to.MergeFrom(*copies);
  }
  reflection.UnsafeArenaSwapFields(&from, &to, moved);
  if (reflection.GetUnknownFields(from).field_count() > 0) {
    reflection.MutableUnknownFields(&to)->MergeFromAndDestroy(reflection.MutableUnknownFields(&from));
  }
}

}  // namespace cairn::proto
