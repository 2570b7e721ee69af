// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace cairn::io {

/// Told of memory that saves and loads use again and again, by any thread, and several at once; what it returns goes
/// just before the memory does.
using MemoryHook = std::function<std::shared_ptr<void>(std::span<std::byte> memory)>;

}  // namespace cairn::io
