// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "cairn/core/load.hpp"
#include "cairn/core/registry.hpp"

namespace cairn::cli {

/// The handlers of protobuf messages, where the tool was built with protobuf; else none.
[[nodiscard]] RegistrySnapshot optional_proto_handlers();

/// The type of a checkpointable that is a protobuf message.
[[nodiscard]] std::optional<std::string> message_type(const ItemMetadata& item);

}  // namespace cairn::cli
