// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <google/protobuf/map_field.h>
#include <google/protobuf/message.h>

#include "proto/merge_plan.hpp"

namespace cairn::proto {

/// A place in the message that chunks are merged into.
struct MergePlace {
  google::protobuf::Message* message = nullptr;  // There; of a scalar the message that has it.
  const google::protobuf::FieldDescriptor* field = nullptr;
  std::optional<int> index;
  std::optional<google::protobuf::MapValueRef> entry;  // Of a map.
};

/// Finds the place of a step in `out`, and makes the messages, elements and entries that are missing on the way.
///
/// Elements before an index that is not there yet are taken from `empty_elements`.
/// Errors: Errc::malformed_metadata where that is too few, and for an element of a repeated scalar that is not there.
[[nodiscard]] MergePlace make_place(google::protobuf::Message& out, const MergeStep& step,
                                    std::uint64_t& empty_elements);

/// Finds the message at a path; null where there is none.
[[nodiscard]] google::protobuf::Message* find_message(google::protobuf::Message& root,
                                                      std::span<const Tag> path);

/// Sets a scalar from the bytes of its chunk: strings as they are, appended with `append`; numbers, booleans and enums
/// from text or else from their little-endian binary form.
///
/// `remarks` gets a sentence when the bytes can be read as both.
/// Errors: Errc::malformed_metadata for bytes that are neither; `name` is the path.
void set_scalar(MergePlace& place, const google::protobuf::FieldDescriptor& value, std::string bytes,
                bool append, std::string_view name, std::vector<std::string>& remarks);

}  // namespace cairn::proto
