// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <google/protobuf/message.h>

#include "proto/tags.hpp"

namespace cairn::proto {

/// Maps by what protobuf's reflection offers to all: a map is a list of messages, its entries, each with a key and a
/// value. Protobuf makes that list when it is first asked for, and keeps it in the message along with the map.
/// In a list that was parsed a key may come twice; the last entry counts.

/// One entry of a map: its key, and its place in the list.
struct MapEntry {
  Tag key;
  int place = 0;
};

/// The entries that count, in the order of their keys, which is the order of the deterministic binary form.
struct MapEntries {
  std::vector<MapEntry> sorted;
  int listed = 0;  // The length of the list, with the entries that do not count.

  /// The entry of a key; null where there is none.
  [[nodiscard]] const MapEntry* find(const Tag& key) const;
};

/// Threads: several may read the same message.
[[nodiscard]] MapEntries entries_of(const google::protobuf::Message& message,
                                    const google::protobuf::FieldDescriptor& field);

/// Returns the message that an entry is; null where the map was changed, and has another entry there.
[[nodiscard]] const google::protobuf::Message* find_listed(const google::protobuf::Message& message,
                                                           const google::protobuf::FieldDescriptor& field,
                                                           const MapEntry& entry);

/// Appends an entry with a key that the map does not have.
[[nodiscard]] google::protobuf::Message& add_entry(google::protobuf::Message& message,
                                                   const google::protobuf::FieldDescriptor& field,
                                                   const Tag& key);

/// Moves a list of entries into the map of a generated message, so that the message has them once. Of a dynamic message
/// the list is all that there is; in an arena it would not be freed. Both stay as they are.
void move_into_map(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field);

}  // namespace cairn::proto
