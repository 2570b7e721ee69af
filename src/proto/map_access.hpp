// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <google/protobuf/map_field.h>
#include <google/protobuf/message.h>

namespace cairn::proto {

/// Maps by reflection, without the copy of all entries as messages that `Reflection::GetRepeatedMessage` makes of a map
/// and keeps in the message. Protobuf has the functions for that, and has them private.

/// One entry of a map. The value lies in the message.
struct MapEntry {
  google::protobuf::MapKey key;
  google::protobuf::MapValueConstRef value;
};

/// Returns the entries of a map in the order of their keys, which is the order of the deterministic binary form.
///
/// Threads: several may read the same message. Ownership: the entries are valid while the message is not changed.
[[nodiscard]] std::vector<MapEntry> sorted_entries(const google::protobuf::Message& message,
                                                   const google::protobuf::FieldDescriptor& field);

/// Returns how many elements a repeated field has. A map of a dynamic message that was parsed counts a key once, as
/// often as it lay on the wire; protobuf's FieldSize counts each of its entries there.
[[nodiscard]] std::size_t count_elements(const google::protobuf::Message& message,
                                         const google::protobuf::FieldDescriptor& field);

/// Has protobuf make the maps of all messages out of the entries that it has parsed, so that ByteSizeLong says the same
/// before and after somebody has looked at one.
void settle_maps(const google::protobuf::Message& message);

/// Returns the value of a key; an empty one is made where the key is not there.
[[nodiscard]] google::protobuf::MapValueRef entry_for(google::protobuf::Message& message,
                                                      const google::protobuf::FieldDescriptor& field,
                                                      const google::protobuf::MapKey& key);

/// Looks for a key without adding it; returns whether it is there.
[[nodiscard]] bool find_entry(const google::protobuf::Message& message,
                              const google::protobuf::FieldDescriptor& field,
                              const google::protobuf::MapKey& key, google::protobuf::MapValueConstRef& value);

/// Sets a value that is not a message.
void copy_scalar(const google::protobuf::MapValueConstRef& from, google::protobuf::MapValueRef& to,
                 const google::protobuf::FieldDescriptor& value);

/// Moves all entries of one map into another of the same type; they replace those of the same key. Both messages lie in
/// the same arena, or both on the heap.
void move_entries(google::protobuf::Message& from, google::protobuf::Message& to,
                  const google::protobuf::FieldDescriptor& field);

}  // namespace cairn::proto
