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
/// of lengths that are now small and now large. `most_depth` messages lie in each other. Some of the messages come from
/// the wire, where their maps have keys in any order, and some of them twice.
void fill_randomly(google::protobuf::Message& message, Dice& dice, int most_depth);

/// The deterministic binary form of the message as a generated one: protobuf writes maps of a dynamic one as they were
/// parsed.
[[nodiscard]] std::string serialised(const google::protobuf::Message& message);

}  // namespace cairn::testing
