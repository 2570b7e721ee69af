// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <google/protobuf/message.h>

#include "cairn/proto/chunk.hpp"
#include "cairn/proto/chunked_message.hpp"

namespace cairn::proto {

struct MergeOptions {
  MergeOptions() = default;

  /// Threads that parse and copy; 0: one for each core, and one alone for less than a MiB.
  unsigned threads = 0;
  /// Most bytes of all chunks together.
  std::uint64_t most_bytes = std::uint64_t{1} << 44;
  /// Most elements that are put in before an index which is not there yet.
  std::uint64_t most_empty_elements = std::uint64_t{1} << 20;
  /// Required fields may be missing.
  bool allow_partial = false;
};

/// What a merge has noticed.
struct Merged {
  std::vector<std::uint64_t> unused_chunks;  ///< Their numbers: nothing in the tree refers to them.
  std::vector<std::string> remarks;          ///< For people: a number that can be read in two ways, say.
};

/// Puts chunks together, as `chunked_message` says, into `out`, which is cleared first. When it fails `out` holds
/// anything.
///
/// A message comes before its fields, elements come in the order of their indexes, and what is missing on the way is
/// made. docs/protobuf.md has the rules for each kind of field.
/// Ownership: `out` is none of the messages that the chunks refer to.
/// Errors:    Errc::malformed_metadata, with chunk number and path, for a tree that does not fit the type or the
///            chunks, and for bytes that are not what their field holds; Errc::type_mismatch for a message of another
///            type.
Merged merge(std::span<const Chunk> chunks, const chunked::ChunkedMessage& chunked_message,
             google::protobuf::Message& out, const MergeOptions& options = {});

}  // namespace cairn::proto
