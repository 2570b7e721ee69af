// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/chunked_message.hpp"

#include "proto/tags.hpp"

namespace cairn::proto {

/// The place to which a chunk belongs.
struct PlacedChunk {
  Tags path;
  std::uint64_t chunk = 0;
  bool is_part = false;  // Elements that are appended to the message there.
};

/// Makes the tree of chunks: flat, as TensorFlow's splitters write it, each field below the root with its whole path.
///
/// The first chunk of a path is that of its node; further ones are fields without tags below it. TensorFlow's merger
/// does not order paths that agree up to a key of a map, so where two or more chunks lie at or below one value of a
/// map, there is a node for that value, and they hang from it with paths from there.
[[nodiscard]] chunked::ChunkedMessage make_tree(std::vector<PlacedChunk> chunks);

}  // namespace cairn::proto
