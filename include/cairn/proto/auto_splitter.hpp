// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cairn/proto/splitter.hpp"

namespace cairn::proto {

/// Cuts a message of any type, by reflection. What is larger than a third of max_size is taken out, strings and bytes
/// as they are and messages with chunks of their own. The rest is packed into pages of at most max_size. Where the
/// message is larger than max_size, SplitOptions::page_size stands for it, but for what TensorFlow's merger cannot put
/// together again: strings in lists and maps, groups and extensions stay in their pages up to a third of max_size.
///
/// The same message and limit give the same chunks and, chunk by chunk, the same bytes with one build of protobuf; of a
/// dynamic message only with the entries of its maps in the same order. A page is above max_size only where a single
/// key of a map, or a single unknown field, is too large by itself.
/// Errors:  Errc::invalid_argument, with path and size, for a page from 2^31 - 1 bytes on.
/// Example: for (const Chunk& chunk : AutoSplitter(graph).chunks()) ...
class AutoSplitter final : public ComposableSplitter {
 public:
  using ComposableSplitter::ComposableSplitter;
  void build_chunks() override;
};

}  // namespace cairn::proto
