// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cairn::chunked {

/// How chunks are put together; "cairn/proto/chunked.pb.h" defines it.
class ChunkedMessage;

}  // namespace cairn::chunked
