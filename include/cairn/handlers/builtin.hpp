// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cairn/array_store/array_entries.hpp"
#include "cairn/core/load.hpp"
#include "cairn/core/registry.hpp"

namespace cairn {

/// The handlers that Cairn brings: stateful objects, JSON, arrays and trees; the last has the highest
/// precedence.
[[nodiscard]] RegistrySnapshot builtin_handlers();

/// The arrays of a checkpointable that metadata described as an AbstractTree or an AbstractArray; none of
/// any other.
///
/// Example: for (const ArrayEntry& array : arrays(metadata.at("state"))) { … }
[[nodiscard]] ArrayEntries arrays(const ItemMetadata& item);

}  // namespace cairn
