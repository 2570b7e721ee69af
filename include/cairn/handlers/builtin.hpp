// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cairn/core/registry.hpp"

namespace cairn {

/// The handlers that Cairn brings: stateful objects, JSON, arrays and trees; the last has the highest
/// precedence.
[[nodiscard]] RegistrySnapshot builtin_handlers();

}  // namespace cairn
