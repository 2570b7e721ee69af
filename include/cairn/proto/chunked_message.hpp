// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cairn::chunked {

// "cairn/proto/chunked.pb.h" defines them.

/// How chunks are put together.
class ChunkedMessage;
/// A ChunkedMessage, with where each chunk lies: what is stored beside chunks.
class ChunkMetadata;

}  // namespace cairn::chunked
