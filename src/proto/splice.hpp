// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include <google/protobuf/message.h>

namespace cairn::proto {

/// Returns how many elements a field has once `more` are appended to those that are `there`.
///
/// Errors: Errc::malformed_metadata where they are more than protobuf can count; `name` says what is merged.
[[nodiscard]] int joined_size(int there, int more, const google::protobuf::FieldDescriptor& field,
                              const std::function<std::string()>& name);

/// Merges `from` into `to` as `Message::MergeFrom` does, by moving: messages, strings and maps are not copied, but for
/// entries of maps, strings and numbers that are appended to others. `from` holds anything afterwards.
///
/// Both are of one type and lie in the same arena, or both on the heap.
/// Errors: those of joined_size; `to` has some of `from` then.
void splice(google::protobuf::Message& from, google::protobuf::Message& to,
            const std::function<std::string()>& name);

}  // namespace cairn::proto
