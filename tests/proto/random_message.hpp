// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/message.h>

#include "support/dice.hpp"

namespace cairn::testing {

/// The messages of which copies are filled: of either syntax, as generated and as dynamic ones.
class Prototypes {
 public:
  [[nodiscard]] const google::protobuf::Message& pick(Dice& dice);

 private:
  google::protobuf::DynamicMessageFactory factory_;
};

/// Fills a message of any type by reflection: some of its fields, extensions and unknown fields, with lists and texts
/// of lengths that are now small and now large. `most_depth` messages lie in each other.
void fill_randomly(google::protobuf::Message& message, Dice& dice, int most_depth);

/// The deterministic binary form. Maps are read without being changed.
[[nodiscard]] std::string serialised(const google::protobuf::Message& message);

}  // namespace cairn::testing
