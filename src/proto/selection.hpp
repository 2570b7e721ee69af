// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <google/protobuf/message.h>

#include "proto/map_access.hpp"

namespace cairn::proto {

struct Selection;

/// Some elements of a field, in a page. Of a singular field the one value is [0, 1).
struct SelectedItem {
  const google::protobuf::FieldDescriptor* field = nullptr;  // Null: unknown fields.
  std::size_t begin = 0;
  std::size_t end = 0;
  std::shared_ptr<const MapEntries> entries;  // Of a map: [begin, end) are some of these.
  std::shared_ptr<const Selection> rest;      // Of the one message there: only this.
  bool blank = false;                         // The one element is empty, and stored elsewhere.
};

/// A page: a part of a message, of its type. Items come in the order in which protobuf writes their fields.
struct Selection {
  const google::protobuf::Message* message = nullptr;
  std::vector<SelectedItem> items;
  std::uint64_t size_bytes = 0;
};

/// Fills an empty message of the same type. With `attach`, `out` lies in an arena and only refers to whole messages of
/// singular and repeated fields, which it never changes; else all is copied.
///
/// Errors: Errc::invalid_argument when the message has fewer elements than when they were selected, or other entries.
void fill(const Selection& selection, google::protobuf::Message& out, bool attach);

}  // namespace cairn::proto
