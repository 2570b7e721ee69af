// SPDX-License-Identifier: Apache-2.0
#include "proto/splice.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <google/protobuf/unknown_field_set.h>

#include "cairn/base/error.hpp"

#include "proto/scalars.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

/// Moves the elements of a field behind those of `to`.
void append_messages(Message& from, Message& to, const FieldDescriptor& field) {
  const Reflection& reflection = *to.GetReflection();
  std::vector<Message*> elements(static_cast<std::size_t>(reflection.FieldSize(from, &field)));
  std::vector<std::unique_ptr<Message>> owners(from.GetArena() == nullptr ? elements.size() : 0);
  for (std::size_t i = elements.size(); i-- > 0;) {
    elements[i] = reflection.UnsafeArenaReleaseLast(&from, &field);
    if (!owners.empty()) {
      owners[i].reset(elements[i]);  // Until the list has it, which may not be able to grow.
    }
  }
  for (std::size_t i = 0; i < elements.size(); ++i) {
    reflection.UnsafeArenaAddAllocatedMessage(&to, &field, elements[i]);
    if (!owners.empty()) {
      static_cast<void>(owners[i].release());
    }
  }
}

}  // namespace

int joined_size(int there, int more, const FieldDescriptor& field, const std::function<std::string()>& name) {
  constexpr int kMost = std::numeric_limits<int>::max();
  if (more > kMost - there) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: '{}' has {} elements, more than the 2^31 - 1 of protobuf", name(),
                            field.full_name(), std::int64_t{there} + more));
  }
  return there + more;
}

void splice(Message& from, Message& to, const std::function<std::string()>& name) {
  const Reflection& reflection = *to.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(from, &fields);
  std::vector<const FieldDescriptor*> moved;   // Whole.
  std::vector<const FieldDescriptor*> copied;  // Entries, and elements that are not messages, behind others.
  for (const FieldDescriptor* field : fields) {
    const bool is_message = field->message_type() != nullptr;
    const int there = field->is_repeated() ? reflection.FieldSize(to, field) : 0;
    if (field->is_repeated()) {
      static_cast<void>(joined_size(there, reflection.FieldSize(from, field), *field, name));
    }
    if (field->is_repeated() ? there == 0 : !is_message || !reflection.HasField(to, field)) {
      moved.push_back(field);
    } else if (is_message_list(*field)) {
      append_messages(from, to, *field);
    } else if (field->is_repeated()) {
      copied.push_back(field);
    } else {
      splice(*reflection.MutableMessage(&from, field), *reflection.MutableMessage(&to, field), name);
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
