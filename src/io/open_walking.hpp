// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cairn::io {

/// Does what `Syscalls::open_beneath` does, without openat2: opens one component after the other, following
/// no link.
int open_walking(int directory, const char* path, int flags, std::uint32_t mode) noexcept;

}  // namespace cairn::io
