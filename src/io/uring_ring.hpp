// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <liburing.h>

namespace cairn::io {

/// Makes a ring that can read, write and sync `requests` at a time, and has room for one entry more. The kernel has a
/// thread for each request where it can.
///
/// Returns 0, or -errno when there is no such ring; then `ring` is not to be used.
/// Threads: the ring belongs to the calling thread.
int open_ring(unsigned requests, io_uring& ring) noexcept;

void close_ring(io_uring& ring) noexcept;

/// Returns whether the kernel will not let this process use its ring any more, as under a seccomp filter of
/// later on.
[[nodiscard]] bool is_refusal(int error) noexcept;

}  // namespace cairn::io
