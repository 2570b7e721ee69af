// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <google/protobuf/message.h>

#include "proto/merge_plan.hpp"

namespace cairn::proto {

/// A place in the message that chunks are merged into.
struct MergePlace {
  google::protobuf::Message* message = nullptr;  // There; of a scalar the message that has it.
  const google::protobuf::FieldDescriptor* field = nullptr;
  std::optional<int> index;
};

/// Finds the places of steps in a message, one after the other, and makes the messages, elements and entries that are
/// missing on the way. It goes on from the last place as far as paths are the same.
class PlaceMaker {
 public:
  /// Of elements before an index that is not there yet `most_empty_elements` are made. `plan` must stay valid.
  PlaceMaker(google::protobuf::Message& out, const MergePlan& plan, std::uint64_t most_empty_elements);

  /// The caller may change what lies there, and nothing else, before the next call.
  ///
  /// Errors: Errc::malformed_metadata where too many elements are missing, and for an element of a repeated scalar that
  ///         is not there.
  [[nodiscard]] MergePlace& make(const MergeStep& step);
  /// Has protobuf make maps of the entries that came one by one: places that were made are gone.
  void finish();

 private:
  struct Stop {
    PathTree::Place at = PathTree::kRoot;
    MergePlace place;
    std::optional<std::map<Tag, int>> entries;  // Of a map, by their keys; nothing until one was asked for.
  };

  /// Leaves the stops behind the first `stops`.
  void go_back(std::size_t stops);
  [[nodiscard]] MergePlace behind(Stop& stop, const Tag& tag, const MergeStep& step);
  [[nodiscard]] google::protobuf::Message& entry_of(Stop& stop, const Tag& key);
  void extend(const MergePlace& list, std::uint64_t index, const MergeStep& step);

  const MergePlan& plan_;
  const google::protobuf::Descriptor* out_type_;
  std::uint64_t empty_elements_;
  std::vector<Stop> way_;  // To the last place, from the root of the plan on.
};

/// Finds the message at a path; null where there is none.
[[nodiscard]] google::protobuf::Message* find_message(google::protobuf::Message& root,
                                                      std::span<const Tag> path);

/// Sets a scalar from the bytes of its chunk: strings as they are, appended with `append`; numbers, booleans and enums
/// from text or else from their little-endian binary form.
///
/// `remarks` gets a sentence when the bytes can be read as both, the first hundred times.
/// Errors: Errc::malformed_metadata for bytes that are neither; `name` gives the path.
void set_scalar(MergePlace& place, const google::protobuf::FieldDescriptor& value, std::string bytes,
                bool append, const std::function<std::string()>& name, std::vector<std::string>& remarks);

}  // namespace cairn::proto
