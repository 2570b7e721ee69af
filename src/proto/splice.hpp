// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message.h>

namespace cairn::proto {

/// Merges `from` into `to` as `Message::MergeFrom` does, by moving: messages, strings and entries of maps are not
/// copied, but for elements of strings and numbers that are appended to others. `from` holds anything afterwards.
///
/// Both are of one type and lie in the same arena, or both on the heap.
void splice(google::protobuf::Message& from, google::protobuf::Message& to);

}  // namespace cairn::proto
