// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/repeated_field.h>

namespace cairn::proto {

/// Adds an element to a list of messages, which grows first: protobuf's own `Add` makes the element first, and loses
/// it where there is no memory for the list.
template <class Message>
Message& add_element(google::protobuf::RepeatedPtrField<Message>& list) {
  list.Reserve(list.size() + 1);
  return *list.Add();
}

}  // namespace cairn::proto
