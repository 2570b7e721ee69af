// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <google/protobuf/message.h>

#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/chunked_message.hpp"

#include "proto/path_tree.hpp"
#include "proto/tags.hpp"

namespace cairn::proto {

/// A chunk with the place where it belongs.
struct MergeStep {
  std::uint64_t chunk = 0;
  PathTree::Place place = PathTree::kRoot;                   // Keys are of the kind of their maps.
  const google::protobuf::Descriptor* type = nullptr;        // Of the message there; null for a scalar.
  const google::protobuf::FieldDescriptor* value = nullptr;  // The field whose type the scalar has.
  bool has_no_tags = false;  // A further part of its message, or the root itself.
  std::uint64_t bytes = 0;   // Of the chunk; the plan does not know it.
};

/// The chunks that are merged, in this order.
struct MergePlan {
  PathTree paths;
  PathTree::Place root = PathTree::kRoot;  // Of the message that they are merged into.
  std::vector<MergeStep> steps;
  std::vector<std::uint64_t> unused_chunks;
};

/// Brings the tree into the order of merging, and checks it against the type of the root, unless that is null.
///
/// The order: the chunk of a node; then its fields, sorted by their tags and, for equal tags, by the number of the
/// chunk. A prefix comes first, so that a message is there before its fields. Of a part those are left out that lie
/// elsewhere: neither at nor below nor above it.
/// Errors: Errc::malformed_metadata for a path that does not fit, for a chunk number that is out of range or used
///         twice, for nodes more than 1000 levels deep, and for paths of more than 2000 tags.
[[nodiscard]] MergePlan plan_merge(const chunked::ChunkedMessage& tree,
                                   const google::protobuf::Descriptor* root, std::size_t chunks,
                                   std::span<const Tag> part = {});

/// In a plan for a part of so many tags: the root of the plan becomes the place of the last chunk at or above the part,
/// and steps above it go.
void begin_at_last_chunk(MergePlan& plan, std::size_t part_tags);

/// Returns the path from the root of the plan.
[[nodiscard]] inline Tags path_of(const MergePlan& plan, const MergeStep& step) {
  return plan.paths.path(step.place, plan.root);
}

}  // namespace cairn::proto
